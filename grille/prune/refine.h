// Exchanging kept and pruned weights until no exchange lowers the layer's error: one-swap refinement,
// SparseSwaps, arXiv 2512.10922.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "grille/prune/pattern.h"

namespace grille::prune {

struct RefineOptions {
  bool update_weights = false;  // false: kept weights are the dense ones; true: the best ones for the mask
  double damping = 0.01;        // with update_weights: added to H's diagonal, times the diagonal's mean
  std::int64_t sweeps = 50;     // at most so many passes over a row's groups; few rows need 10
  // With update_weights: solve for the kept weights, then sweep, at most so many times.
  std::int64_t rounds = 8;
  std::int64_t solver_iterations = 20;
};

struct RefineResult {
  at::Tensor weight;       // float32 [rows, cols]
  std::int64_t swaps = 0;  // in all rows
};

// Starts from the mask of `pruned` (the pattern's `keep` largest of each group) and walks over each row's
// groups from left to right. In a group the exchange of a kept weight u and a pruned one p that lowers the
// row's error d H d^T (d: dense minus pruned weights) most is made, until none lowers it:
//   change = 2 v_u g_u + v_u^2 H_uu - 2 x (g_p + v_u H_up) + x^2 H_pp,     g = d H
// v: the weights as they are; x: what p becomes, its dense value, or with update_weights the best one,
// (g_p + v_u H_up) / H_pp. Sweeps go on until a whole one exchanges nothing.
// dense, pruned float32 [rows, cols]; hessian as InputStatistics::hessian(). Cost: a product of [rows, cols]
// and [cols, cols] and 4 cols operations a swap; with update_weights that and solver_iterations products, for
// each round. Throws Error{kInvalidArgument} for an unstructured pattern, or columns that its group does not
// divide.
RefineResult refine(const at::Tensor& dense, const at::Tensor& pruned, const at::Tensor& hessian,
                    const Pattern& pattern, const RefineOptions& options);

}  // namespace grille::prune
