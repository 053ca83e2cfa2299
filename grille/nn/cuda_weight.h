// Weights of linear layers on a CUDA device.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grille/nn/linear.h"
#include "grille/tensors/weight.h"

namespace grille::nn {

// Scratch memory of the 2:4 kernels, for all layers whose calls follow each other on one stream.
class CudaWorkspace {
 public:
  // At least `bytes`; it begins with kernels::kMatmul24CounterBytes zeros, as every kernel leaves it.
  // Allocates where more is asked for than ever before.
  const at::Tensor& reserve(std::size_t bytes, at::Device device);

 private:
  at::Tensor memory_;
};

// The weight of one layer, or of several that read the same input as one: then one product serves all of
// them.
class CudaWeight {
 public:
  virtual ~CudaWeight() = default;
  // x [tokens, in_features] in the compute dtype -> x W^T + bias, [tokens, rows] in `dtype`.
  virtual at::Tensor multiply(const at::Tensor& x, at::ScalarType dtype) const = 0;
  // hidden += x W^T + bias. hidden [tokens, rows] in the compute dtype.
  virtual void multiply_add(const at::Tensor& x, at::Tensor& hidden) const;
  // For interleaved rows, gate at even ones and up at odd ones: silu(gate(x)) * up(x), [tokens, rows / 2].
  virtual at::Tensor swiglu(const at::Tensor& x) const;
  virtual std::int64_t rows() const = 0;
  // "2:4 float8_e4m3fn", "dense bfloat16", ...
  virtual std::string format() const = 0;
};

struct CudaWeightOptions {
  at::Device device = at::kCUDA;
  at::ScalarType compute = at::kBFloat16;
  bool interleave = false;  // row i of every layer, then row i + 1: two layers of equal size
};

// A copy of the layers' weights on the device, in the form that it multiplies fastest:
//   2:4 of a 16-bit compute dtype or float8  packed for compute capability 9.0
//   dense float8 with rounded activations    as it is, on compute capability 8.9 and newer
//   dense                                    in the compute dtype
// What a device or a dtype has no kernel for is expanded to a dense weight of the compute dtype: format()
// says so. The layers agree in format, dtype, in_features and activations. Throws Error{kInvalidArgument} if
// they do not.
std::unique_ptr<CudaWeight> make_cuda_weight(std::span<const WeightLinear* const> layers,
                                             const CudaWeightOptions& options,
                                             std::shared_ptr<CudaWorkspace> workspace);

// Of a matrix [rows, in_features] that is on the device in the compute dtype: no copy is made.
std::unique_ptr<CudaWeight> dense_cuda_weight(at::Tensor values, const at::Tensor& bias);

// Whether the layers agree as make_cuda_weight() wants it.
bool fit_in_one_cuda_weight(std::span<const WeightLinear* const> layers);

// One layer's share of a weight: rows first, first + step, ... of it.
class CudaLinear final : public Linear {
 public:
  CudaLinear(std::shared_ptr<const CudaWeight> weight, std::int64_t in_features, std::int64_t out_features,
             std::int64_t first, std::int64_t step);

  std::int64_t in_features() const override { return in_features_; }
  std::int64_t out_features() const override { return out_features_; }
  at::Tensor forward(const at::Tensor& x) const override { return forward_as(x, x.scalar_type()); }
  at::Tensor forward_as(const at::Tensor& x, at::ScalarType dtype) const override;
  void forward_add(const at::Tensor& x, at::Tensor& hidden) const override;

  const CudaWeight& weight() const { return *weight_; }
  // This layer's part of what weight().multiply() gave.
  at::Tensor part_of(const at::Tensor& product) const;

 private:
  std::shared_ptr<const CudaWeight> weight_;
  std::int64_t in_features_, out_features_, first_, step_;
};

}  // namespace grille::nn
