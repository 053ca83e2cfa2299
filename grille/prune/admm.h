// Pruning with the alternating direction method of multipliers: V. Boza, "Fast and Effective Weight Update
// for Pruned Large Language Models", arXiv 2401.02938, with its gradual mask.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "grille/prune/pattern.h"

namespace grille::prune {

struct AdmmOptions {
  double damping = 0.1;  // added to the diagonal, times the diagonal's mean
  double penalty = 1.0;  // rho
  std::int64_t iterations = 20;
  std::int64_t mask_steps = 15;  // iterations in which the mask is chosen anew, of a rising share of zeros
};

// In units in which every input has the norm 1 (UnitProblem), so that |weight| is Wanda's score; G is damped:
//   U = 0;  for t = 1 .. iterations:
//     t <= mask_steps: mask from |V + U| with the share sparsity (1 - (1 - t / mask_steps)^3) of zeros
//     Z = (V + U) mask;  U += V - Z;  V = (V_0 G + rho (Z - U)) inverse(G + rho I)
//   result (V + U) mask
// N:M: the `keep` largest of a group always stay; of the others of the whole matrix the smallest go first.
// weight float32 [rows, cols], hessian as InputStatistics::hessian(); float32 [rows, cols] comes back, in
// fp64 until then. A column with a zero diagonal becomes zero. Cost: cols^3 for the inverse, `iterations` + 1
// products of [rows, cols] and [cols, cols]. Throws Error{kInvalidArgument} when cols is not a multiple of
// the pattern's group.
at::Tensor admm(const at::Tensor& weight, const at::Tensor& hessian, const Pattern& pattern,
                const AdmmOptions& options);

}  // namespace grille::prune
