// What calibration tells a pruning method about the inputs of a layer.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace grille::prune {

// The Gram matrix X^T X of a layer's inputs, in fp64: the products of fp32 inputs are exact, so that what is
// pruned does not hang on the order of sums (near-ties decide weights, and one beside a massive activation
// moves every later block).
class InputStatistics {
 public:
  // Memory: 8 features^2 bytes.
  explicit InputStatistics(std::int64_t features);

  // x [tokens, features]: one calibration sequence. Cost: tokens * features * (features + 512) flops (one
  // triangle, in blocks).
  void add(const at::Tensor& x);

  std::int64_t sequences() const { return sequences_; }

  // H = 2 / sequences * X^T X, float64 [features, features], symmetric (SparseGPT, arXiv 2301.00774).
  at::Tensor hessian() const;
  // sum of x_j^2 / sequences, float32 [features] (Wanda's scaler_row, arXiv 2306.11695).
  at::Tensor mean_squares() const;
  // False when a NaN or an infinity came in.
  bool finite() const;

 private:
  at::Tensor gram_;  // upper block triangle
  std::int64_t sequences_ = 0;
};

// ||W X - W' X||_F / ||W X||_F = sqrt(tr(D H D^T) / tr(W H W^T)), D = W - W'; in fp64.
// 0 when the layer's output is 0.
double relative_error(const at::Tensor& weight, const at::Tensor& pruned, const at::Tensor& hessian);

}  // namespace grille::prune
