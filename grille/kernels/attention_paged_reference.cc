#include "grille/kernels/attention_paged_reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "grille/kernels/reference_values.h"

namespace grille::kernels {
namespace {

// softmax(scale * q . K) V for one query head of one position.
void attend_row(const ConstMatrixView& query, const formats::SequenceSpan& s, const formats::PagedKvView& kv,
                float scale, const MatrixView& out, std::int64_t position, std::int64_t head,
                std::int64_t kv_head) {
  const std::int64_t row = s.first_row + position - s.start;
  const auto offset = [&](std::int64_t j) {
    return kv.offset(s.pages[j / formats::kPageSize], kv_head, j % formats::kPageSize);
  };
  std::vector<double> weights;
  for (std::int64_t j = 0; j <= position; ++j) {
    double score = 0.0;
    for (std::int64_t d = 0; d < kv.head_dim; ++d) {
      score += static_cast<double>(reference_value(query.dtype, query.row(row), head * kv.head_dim + d)) *
               reference_value(kv.dtype, kv.keys, offset(j) + d);
    }
    weights.push_back(score * scale);
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  double total = 0.0;
  for (double& w : weights) total += w = std::exp(w - largest);
  for (std::int64_t d = 0; d < kv.head_dim; ++d) {
    double sum = 0.0;
    for (std::int64_t j = 0; j <= position; ++j) {
      sum += weights[static_cast<std::size_t>(j)] * reference_value(kv.dtype, kv.values, offset(j) + d);
    }
    set_reference_value(out.dtype, out.row(row), head * kv.head_dim + d, static_cast<float>(sum / total));
  }
}

}  // namespace

void attention_paged_reference(const ConstMatrixView& query, std::span<const formats::SequenceSpan> sequences,
                               const formats::PagedKvView& kv, float scale, const MatrixView& out) {
  const std::int64_t heads = query.cols / kv.head_dim;
  for (const formats::SequenceSpan& s : sequences) {
    for (std::int64_t position = s.start; position < s.start + s.count; ++position) {
      for (std::int64_t head = 0; head < heads; ++head) {
        attend_row(query, s, kv, scale, out, position, head, head / (heads / kv.num_kv_heads));
      }
    }
  }
}

}  // namespace grille::kernels
