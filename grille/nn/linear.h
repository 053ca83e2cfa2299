// Linear layers, whatever their weight's format.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grille/kernels/matmul.h"
#include "grille/tensors/weight.h"

namespace grille::nn {

class Linear {
 public:
  virtual ~Linear() = default;
  virtual std::int64_t in_features() const = 0;
  virtual std::int64_t out_features() const = 0;
  // x [..., in_features] -> [..., out_features] in x's dtype.
  virtual at::Tensor forward(const at::Tensor& x) const = 0;
  // As forward, with the result in `dtype`.
  virtual at::Tensor forward_as(const at::Tensor& x, at::ScalarType dtype) const;
  // hidden += forward(x), for residual connections. hidden [..., out_features], in x's dtype.
  virtual void forward_add(const at::Tensor& x, at::Tensor& hidden) const;
};

// What a quantized weight multiplies.
enum class Activations {
  kFull,  // the activations as they are
  kFp8,   // rounded to FP8 with a scale per token first, as GPUs with FP8 tensor cores do
  kInt8,  // rounded to integers from -128 to 127 with a scale per token first, as GPUs with int8 tensor cores
          // do
};

// A fixed weight on the CPU: dense or 2:4, 32, 16 or 8 bits; one that kernels do not multiply as it is stored
// runs as tensors::runnable() has it.
class WeightLinear final : public Linear {
 public:
  // bias: float32 [out_features] or undefined. kFp8 is refused for a weight that has no scales.
  explicit WeightLinear(tensors::Weight weight, at::Tensor bias = {},
                        Activations activations = Activations::kFull);

  std::int64_t in_features() const override { return weight_.cols; }
  std::int64_t out_features() const override { return weight_.rows; }
  at::Tensor forward(const at::Tensor& x) const override;
  void forward_add(const at::Tensor& x, at::Tensor& hidden) const override;
  at::Tensor forward_as(const at::Tensor& x, at::ScalarType dtype) const override;

  // The same layer (bias, activations where they fit) with another weight of the same shape.
  std::unique_ptr<WeightLinear> with_weight(tensors::Weight weight) const;

  const tensors::Weight& weight() const { return weight_; }
  const at::Tensor& bias() const { return bias_; }
  // float32 [out_features], or undefined where the weight is not quantized.
  const at::Tensor& scale() const { return scale_; }
  Activations activations() const { return activations_; }

 private:
  friend std::vector<at::Tensor> forward_shared(const at::Tensor& x, std::span<const Linear* const> linears);

  tensors::Weight weight_;
  at::Tensor bias_;
  at::Tensor scale_;  // float32 copy of weight_.scale
  // What the kernels read, found once: a weight streams through the caches, and each step would find the
  // tensors' own records gone from them.
  kernels::AnyWeight view_;
  Activations activations_;
};

// {linear->forward(x) for each}: layers that read the same input (q, k, v; gate, up) share its preparation
// and one parallel region where all of them are WeightLinear, and one product where they are parts of one
// CudaWeight.
std::vector<at::Tensor> forward_shared(const at::Tensor& x, std::span<const Linear* const> linears);

// silu(gate(x)) * up(x). x [tokens, in_features].
at::Tensor swiglu(const at::Tensor& x, const Linear& gate, const Linear& up);

}  // namespace grille::nn
