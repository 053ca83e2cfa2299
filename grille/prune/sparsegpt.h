// SparseGPT (Frantar and Alistarh, arXiv 2301.00774): columns are pruned from left to right, and each
// removal's error is spread over the columns to its right with the inverse Hessian.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "grille/prune/pattern.h"

namespace grille::prune {

struct SparseGptOptions {
  double damping = 0.01;     // added to the diagonal, times the diagonal's mean
  std::int64_t block = 128;  // columns between two lazy updates; rounded down to a multiple of the group
};

struct SparseGptResult {
  at::Tensor weight;     // float32 [rows, cols], pruned
  double damping = 0.0;  // what the Cholesky factorisation needed: options.damping times a power of 10
};

// Factors and sweep are in fp64: in fp32 the order of sums alone moves a model's perplexity by percents.
// weight float32 [rows, cols]; hessian float32 or float64 [cols, cols] (InputStatistics::hessian). A column
// with a zero diagonal is dead: it becomes zero. Cost: cols^3 for the factors, rows * cols^2 for the sweep.
// Throws Error{kInvalidArgument} when cols is not a multiple of the pattern's group, Error{kCorruptData}
// when no damping up to 1 makes the Hessian positive definite.
SparseGptResult sparsegpt(const at::Tensor& weight, const at::Tensor& hessian, const Pattern& pattern,
                          const SparseGptOptions& options);

}  // namespace grille::prune
