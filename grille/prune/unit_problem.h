// A layer's least-squares problem in units in which every input has the norm 1.
#pragma once

#include <ATen/core/Tensor.h>

namespace grille::prune {

// H with `damping` times the mean of its diagonal added to it, float64; entries of dead inputs (0) stay 0.
at::Tensor damped(const at::Tensor& hessian, double damping);

// For weights V = W diag(norm), tr((V - V') gram (V - V')^T) is the error of the layer's outputs. In these
// units |V| is Wanda's score, and ridge terms and conjugate gradients treat all inputs alike.
struct UnitProblem {
  at::Tensor weight;  // V, float64 [rows, cols]; 0 in dead columns
  at::Tensor gram;    // float64 [cols, cols], ones on the diagonal
  at::Tensor norm;    // float64 [cols], sqrt(H_jj); 1 for a dead input

  // float32 [rows, cols]: the weights of the layer that `weight` of these units stands for.
  at::Tensor to_layer(const at::Tensor& unit_weight) const;
};

// weight float32 [rows, cols], hessian float32 or float64 [cols, cols]. Memory: 8 cols (rows + 2 cols) bytes.
UnitProblem unit_problem(const at::Tensor& weight, const at::Tensor& hessian);

}  // namespace grille::prune
