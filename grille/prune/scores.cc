#include "grille/prune/scores.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <ATen/ops/empty.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/kernels/select_24.h"
#include "grille/tensors/views.h"

namespace grille::prune {
namespace {

// Keeps all but the `drop` lowest of `count` scores; of equal ones the lower index is dropped first.
void keep_highest(const float* scores, std::int64_t count, std::int64_t drop, bool* keep,
                  std::vector<std::int32_t>& order) {
  order.resize(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  const auto lower = [scores](std::int32_t a, std::int32_t b) {
    return scores[a] != scores[b] ? scores[a] < scores[b] : a < b;
  };
  std::nth_element(order.begin(), order.begin() + drop, order.end(), lower);
  std::fill(keep, keep + count, true);
  for (std::int64_t i = 0; i < drop; ++i) keep[order[static_cast<std::size_t>(i)]] = false;
}

float matrix_threshold(const at::Tensor& scores, double sparsity) {
  std::vector<float> sorted(scores.const_data_ptr<float>(), scores.const_data_ptr<float>() + scores.numel());
  const auto rank = sorted.begin() + static_cast<std::int64_t>(static_cast<double>(sorted.size()) * sparsity);
  std::nth_element(sorted.begin(), rank, sorted.end());
  return *rank;
}

}  // namespace

at::Tensor keep_mask(const at::Tensor& scores_in, const Pattern& pattern, Scope scope) {
  const at::Tensor scores = scores_in.contiguous();
  const std::int64_t rows = scores.size(0);
  const std::int64_t cols = scores.size(1);
  const bool grouped = pattern.kind == Pattern::Kind::kGroups;
  check(!grouped || cols % pattern.group == 0, ErrorCode::kInvalidArgument,
        "prune: {} columns are not a multiple of the pattern's group {}", cols, pattern.group);
  check(grouped || !scores.isnan().any().item<bool>(), ErrorCode::kCorruptData, "prune: a score is NaN");
  if (!grouped && scope == Scope::kMatrix) return scores.gt(matrix_threshold(scores, pattern.sparsity));

  at::Tensor keep = at::empty({rows, cols}, at::kBool);
  bool* out = keep.mutable_data_ptr<bool>();
  if (grouped) {
    kernels::TwoFourViolation violation;
    kernels::select_24({.scores = tensors::matrix_view(scores),
                        .keep = static_cast<int>(pattern.keep),
                        .group = static_cast<int>(pattern.group),
                        .mask = {reinterpret_cast<std::uint8_t*>(out), cols, kernels::KeepMaskForm::kBytes},
                        .violation = &violation,
                        .stream = {}});
    kernels::check_selected(violation, "prune");
    return keep;
  }
  const std::int64_t drop = static_cast<std::int64_t>(static_cast<double>(cols) * pattern.sparsity);
  const float* in = scores.const_data_ptr<float>();
  parallel_for(rows, 4, [&](std::int64_t first, std::int64_t last) {
    std::vector<std::int32_t> order;
    for (std::int64_t row = first; row < last; ++row) {
      keep_highest(in + row * cols, cols, drop, out + row * cols, order);
    }
  });
  return keep;
}

at::Tensor magnitude_scores(const at::Tensor& weight) { return weight.to(at::kFloat).abs(); }

at::Tensor wanda_scores(const at::Tensor& weight, const at::Tensor& mean_squares) {
  return weight.to(at::kFloat).abs().mul_(mean_squares.sqrt().unsqueeze(0));
}

at::Tensor ria_scores(const at::Tensor& weight, const at::Tensor& mean_squares) {
  constexpr double kActivationExponent = 0.5;  // of the inputs' root mean square, as the paper recommends
  const at::Tensor magnitude = weight.to(at::kDouble).abs();
  // A row or a column of zeros has no share to divide: its weights score 0.
  const auto inverse_sum = [&](std::int64_t dimension) {
    const at::Tensor sum = magnitude.sum(dimension, /*keepdim=*/true);
    return sum.reciprocal().masked_fill_(sum.eq(0), 0.0);
  };
  const at::Tensor share = inverse_sum(0).add(inverse_sum(1));
  const at::Tensor activation = mean_squares.to(at::kDouble).pow(kActivationExponent / 2).unsqueeze(0);
  return magnitude.mul(share).mul_(activation).to(at::kFloat);
}

}  // namespace grille::prune
