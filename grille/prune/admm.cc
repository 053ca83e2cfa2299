#include "grille/prune/admm.h"

#include <cmath>
#include <limits>

#include <ATen/ops/cholesky_inverse.h>
#include <ATen/ops/linalg_cholesky.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>

#include "grille/base/interrupt.h"
#include "grille/prune/scores.h"
#include "grille/prune/unit_problem.h"

namespace grille::prune {
namespace {

// The mask of step `step` of `steps`, counted from 1.
at::Tensor gradual_mask(const at::Tensor& scores, const Pattern& pattern, std::int64_t step,
                        std::int64_t steps) {
  const double left = 1.0 - static_cast<double>(step) / static_cast<double>(steps);
  Pattern share{Pattern::Kind::kUnstructured, 0, 0, pattern.sparsity * (1.0 - left * left * left)};
  if (pattern.kind == Pattern::Kind::kUnstructured) return keep_mask(scores, share, Scope::kMatrix);
  const at::Tensor best = keep_mask(scores, pattern, Scope::kRow);
  if (step == steps) return best;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return keep_mask(scores.masked_fill(best, kInfinity), share, Scope::kMatrix);
}

}  // namespace

at::Tensor admm(const at::Tensor& weight, const at::Tensor& hessian, const Pattern& pattern,
                const AdmmOptions& options) {
  const UnitProblem unit = unit_problem(weight, hessian);
  at::Tensor gram = damped(unit.gram, options.damping);
  const at::Tensor target = at::mm(unit.weight, gram);
  gram.diagonal().add_(options.penalty);
  const at::Tensor inverse = at::cholesky_inverse(at::linalg_cholesky(gram));

  at::Tensor v = unit.weight;
  at::Tensor u = at::zeros_like(v);
  at::Tensor mask;
  for (std::int64_t step = 1; step <= options.iterations; ++step) {
    throw_if_interrupted();
    const at::Tensor moved = v.add(u);
    if (step <= options.mask_steps)
      mask = gradual_mask(moved.abs().to(at::kFloat), pattern, step, options.mask_steps);
    const at::Tensor z = moved.mul(mask);
    u = moved.sub(z);
    v = at::mm(z.sub(u).mul_(options.penalty).add_(target), inverse);
  }
  return unit.to_layer(v.add_(u).mul_(mask));
}

}  // namespace grille::prune
