#include "grille/prune/unit_problem.h"

namespace grille::prune {

at::Tensor damped(const at::Tensor& hessian, double damping) {
  at::Tensor result = hessian.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  at::Tensor diagonal = result.diagonal();
  diagonal.add_(diagonal.ne(0).to(at::kDouble).mul_(diagonal.mean().mul(damping)));
  return result;
}

at::Tensor UnitProblem::to_layer(const at::Tensor& unit_weight) const {
  return unit_weight.div(norm).to(at::kFloat);
}

UnitProblem unit_problem(const at::Tensor& weight, const at::Tensor& hessian) {
  const at::Tensor squares = hessian.diagonal().to(at::kDouble);
  const at::Tensor dead = squares.eq(0);
  UnitProblem unit;
  unit.norm = squares.sqrt().masked_fill_(dead, 1.0);
  unit.weight = weight.to(at::kDouble).mul(unit.norm).masked_fill_(dead.unsqueeze(0), 0.0);
  unit.gram = hessian.to(at::kDouble).div(unit.norm).div_(unit.norm.unsqueeze(1));
  unit.gram.diagonal().fill_(1.0);  // exactly, dead inputs' too
  return unit;
}

}  // namespace grille::prune
