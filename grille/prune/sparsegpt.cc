#include "grille/prune/sparsegpt.h"

#include <algorithm>
#include <array>
#include <vector>

#include <ATen/ops/cholesky_inverse.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/zeros.h>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/base/parallel.h"
#include "grille/prune/scores.h"

namespace grille::prune {
namespace {

struct Factor {
  at::Tensor upper;  // U, upper triangular, with inverse(H + damping) = U^T U
  double damping = 0.0;
};

Factor inverse_factor(const at::Tensor& hessian, double damping) {
  const double mean = hessian.diagonal().mean().item<double>();
  for (double tried = damping; tried <= std::max(1.0, damping); tried *= 10.0) {
    at::Tensor damped = hessian.clone();
    damped.diagonal().add_(tried * mean);
    const auto [lower, info] = at::linalg_cholesky_ex(damped);
    if (info.item<int>() != 0) continue;
    const auto [upper, inverse_info] = at::linalg_cholesky_ex(at::cholesky_inverse(lower), /*upper=*/true);
    if (inverse_info.item<int>() == 0) return {upper.contiguous(), tried};
  }
  fail(ErrorCode::kCorruptData,
       "sparsegpt: the Hessian is not positive definite even with damping {}; use more calibration samples "
       "or a "
       "larger --damping",
       std::max(1.0, damping));
}

// One row of one block of columns: `w` holds the current weights and becomes the pruned ones, `errors`
// what each column's removal leaves to the columns after the block.
struct RowSweep {
  const float* factor;  // U of this block, [columns, stride]
  std::int64_t stride;
  std::int64_t columns;
  const Pattern* pattern;
  const bool* keep;  // this row's mask for an unstructured pattern, else null

  void run(float* w, float* errors) const {
    std::array<bool, 32> group_keep{};
    for (std::int64_t i = 0; i < columns; ++i) {
      const float diagonal = factor[i * stride + i];
      bool kept = false;
      if (keep != nullptr) {
        kept = keep[i];
      } else {
        const std::int64_t in_group = i % pattern->group;
        if (in_group == 0) select_group(w, i, group_keep);
        kept = group_keep[static_cast<std::size_t>(in_group)];
      }
      const float pruned = kept ? w[i] : 0.0f;
      const float error = (w[i] - pruned) / diagonal;
      errors[i] = error;
      if (error != 0.0f) {
        const float* row = factor + i * stride;
        for (std::int64_t j = i + 1; j < columns; ++j) w[j] -= error * row[j];
      }
      w[i] = pruned;
    }
  }

 private:
  // Keeps the pattern's `keep` weights with the highest w^2 / U_jj^2; of equal ones the lower column goes.
  void select_group(const float* w, std::int64_t begin, std::array<bool, 32>& group_keep) const {
    std::array<float, 32> scores;
    const std::int64_t size = pattern->group;
    for (std::int64_t j = 0; j < size; ++j) {
      const float diagonal = factor[(begin + j) * stride + begin + j];
      scores[static_cast<std::size_t>(j)] = w[begin + j] * w[begin + j] / (diagonal * diagonal);
    }
    for (std::int64_t j = 0; j < size; ++j) {
      std::int64_t better = 0;
      for (std::int64_t other = 0; other < size; ++other) {
        const float mine = scores[static_cast<std::size_t>(j)];
        const float theirs = scores[static_cast<std::size_t>(other)];
        if (theirs > mine || (theirs == mine && other > j)) ++better;
      }
      group_keep[static_cast<std::size_t>(j)] = better < pattern->keep;
    }
  }
};

}  // namespace

SparseGptResult sparsegpt(const at::Tensor& weight, const at::Tensor& hessian, const Pattern& pattern,
                          const SparseGptOptions& options) {
  const std::int64_t rows = weight.size(0);
  const std::int64_t cols = weight.size(1);
  const bool grouped = pattern.kind == Pattern::Kind::kGroups;
  check(!grouped || cols % pattern.group == 0, ErrorCode::kInvalidArgument,
        "sparsegpt: {} columns are not a multiple of the pattern's group {}", cols, pattern.group);

  at::Tensor w = weight.to(at::kFloat).clone();
  at::Tensor h = hessian.clone();
  const at::Tensor dead = h.diagonal().eq(0);
  h.diagonal().masked_fill_(dead, 1.0);
  w.masked_fill_(dead.unsqueeze(0), 0.0);
  const Factor factor = inverse_factor(h, options.damping);

  const std::int64_t block =
      grouped ? std::max(options.block / pattern.group, std::int64_t{1}) * pattern.group : options.block;
  at::Tensor errors = at::zeros({rows, std::min(block, cols)}, at::kFloat);
  for (std::int64_t begin = 0; begin < cols; begin += block) {
    throw_if_interrupted();
    const std::int64_t count = std::min(block, cols - begin);
    const at::Tensor u = factor.upper.narrow(0, begin, count).narrow(1, begin, count);
    at::Tensor keep;  // unstructured: chosen for the whole block over all rows, from the current weights
    if (!grouped) {
      const at::Tensor scores = w.narrow(1, begin, count).square().div(u.diagonal().square());
      keep = keep_mask(scores, pattern, Scope::kMatrix);
    }
    float* weights = w.mutable_data_ptr<float>() + begin;
    float* left = errors.mutable_data_ptr<float>();
    const std::int64_t left_stride = errors.size(1);
    const bool* mask = keep.defined() ? keep.const_data_ptr<bool>() : nullptr;
    parallel_for(rows, 8, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        const RowSweep sweep{u.const_data_ptr<float>(), cols, count, &pattern,
                             mask ? mask + row * count : nullptr};
        sweep.run(weights + row * cols, left + row * left_stride);
      }
    });
    const std::int64_t rest = cols - begin - count;
    if (rest > 0) {
      w.narrow(1, begin + count, rest)
          .addmm_(errors.narrow(1, 0, count),
                  factor.upper.narrow(0, begin, count).narrow(1, begin + count, rest),
                  /*beta=*/1, /*alpha=*/-1);
    }
  }
  return {w, factor.damping};
}

}  // namespace grille::prune
