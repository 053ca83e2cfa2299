// ALPS: Meng et al., "ALPS: Improved Optimization for Highly Sparse One-Shot Pruning for Large Language
// Models", arXiv 2406.07831. The alternating direction method of multipliers finds mask and weights together
// while its penalty grows; conjugate gradients then improve the weights of the mask that it ends with.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "grille/prune/pattern.h"

namespace grille::prune {

struct AlpsOptions {
  double damping = 0.01;  // added to the diagonal, times the diagonal's mean
  double penalty = 0.1;   // rho of the first iterations
  std::int64_t iterations = 300;
  std::int64_t solver_iterations = 10;
};

// In units in which every (damped) input has the norm 1; P keeps the largest magnitudes by the pattern:
//   B = (V G - L + rho D) inverse(G + rho I);   D = P(B + L / rho);   L += rho (B - D)
// Every 3 iterations rho grows by 1.3, 1.2 or 1.1 where the mask changed in more than 10 %, 0.5 % or 0 of the
// kept weights; with no change the iterations end (after 30 already with less than 0.03 %). As in the
// authors' code alps.py, rho falls to a fifth, and the start is tried again, while the mask has never changed
// by 0.5 %.
// weight float32 [rows, cols], hessian as InputStatistics::hessian(); float32 [rows, cols] comes
// back, in fp64 until then. Cost: an eigendecomposition (10 cols^3), cols^3 every 3 iterations, `iterations`
// + solver_iterations products of [rows, cols] and [cols, cols].
// Throws Error{kInvalidArgument} when cols is not a multiple of the pattern's group.
at::Tensor alps(const at::Tensor& weight, const at::Tensor& hessian, const Pattern& pattern,
                const AlpsOptions& options);

}  // namespace grille::prune
