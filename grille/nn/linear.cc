#include "grille/nn/linear.h"

#include <algorithm>
#include <array>

#include "grille/base/error.h"
#include "grille/kernels/matmul.h"
#include "grille/kernels/quantize_fp8_rows.h"
#include "grille/kernels/quantize_int8_rows.h"
#include "grille/nn/cuda_weight.h"
#include "grille/nn/ops.h"
#include "grille/tensors/allocate.h"
#include "grille/tensors/views.h"

namespace grille::nn {
namespace {

std::vector<std::int64_t> output_shape(const at::Tensor& x, std::int64_t features) {
  std::vector<std::int64_t> shape(x.sizes().begin(), x.sizes().end());
  shape.back() = features;
  return shape;
}

kernels::AnyWeight view_of(const tensors::Weight& weight, const at::Tensor& scale, const at::Tensor& bias) {
  const auto data = [](const at::Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; };
  if (weight.format == tensors::WeightFormat::kTwoFour) {
    return kernels::TwoFourWeight{tensors::two_four_view(weight), data(scale), data(bias)};
  }
  return kernels::DenseWeight{tensors::matrix_view(weight.values), data(scale), data(bias)};
}

// Rounded to nearest even with the scale amax / 127.5 of compressed-tensors; the integers as bfloat16, which
// holds them exactly, so that products with integer weights are exact.
void round_to_integers(const MatrixView& x, at::Tensor& values, at::Tensor& scales) {
  values = tensors::empty({x.rows, x.cols}, at::kBFloat16);
  scales = tensors::empty({x.rows}, at::kFloat);
  kernels::quantize_int8_rows(x, tensors::matrix_view(values), scales.mutable_data_ptr<float>());
}

// The token side of a product: x itself, or x rounded with a scale per token.
struct PreparedTokens {
  at::Tensor values;
  at::Tensor scales;
  kernels::MatmulTokens tokens;

  PreparedTokens(const at::Tensor& x, Activations activations) {
    const MatrixView view = tensors::matrix_view(x);
    tokens.x = view;
    if (activations == Activations::kFull) return;
    if (activations == Activations::kInt8) {
      round_to_integers(view, values, scales);
      tokens = {tensors::matrix_view(values), scales.const_data_ptr<float>()};
      return;
    }
    values = tensors::empty({view.rows, view.cols}, at::kFloat8_e4m3fn);
    scales = tensors::empty({view.rows}, at::kFloat);
    const MatrixView rounded = tensors::matrix_view(values);
    kernels::quantize_fp8_rows(view, rounded, scales.mutable_data_ptr<float>());
    tokens = {rounded, scales.const_data_ptr<float>()};
  }
};

}  // namespace

at::Tensor Linear::forward_as(const at::Tensor& x, at::ScalarType dtype) const {
  return forward(x).to(dtype);
}

void Linear::forward_add(const at::Tensor& x, at::Tensor& hidden) const { hidden.add_(forward(x)); }

WeightLinear::WeightLinear(tensors::Weight weight, at::Tensor bias, Activations activations)
    : weight_(tensors::runnable(weight)), bias_(std::move(bias)), activations_(activations) {
  check(activations != Activations::kFp8 || weight_.quantized(), ErrorCode::kInvalidArgument,
        "linear: activations are rounded to FP8 only for a quantized weight");
  check(!bias_.defined() || bias_.numel() == weight_.rows, ErrorCode::kInvalidArgument,
        "linear: expected a bias of {} values", weight_.rows);
  if (weight_.quantized()) scale_ = weight_.scale.to(at::kFloat).contiguous();
  view_ = view_of(weight_, scale_, bias_);
}

std::unique_ptr<WeightLinear> WeightLinear::with_weight(tensors::Weight weight) const {
  check(weight.rows == weight_.rows && weight.cols == weight_.cols, ErrorCode::kInvalidArgument,
        "linear: expected a weight of [{}, {}], got [{}, {}]", weight_.rows, weight_.cols, weight.rows,
        weight.cols);
  const Activations activations =
      weight_.quantized() == weight.quantized() ? activations_ : Activations::kFull;
  return std::make_unique<WeightLinear>(std::move(weight), bias_, activations);
}

at::Tensor WeightLinear::forward_as(const at::Tensor& x, at::ScalarType dtype) const {
  at::Tensor y = tensors::empty(output_shape(x, weight_.rows), dtype);
  const PreparedTokens prepared(x, activations_);
  const kernels::MatmulOutput output{tensors::matrix_view(y)};
  kernels::matmul_grouped(prepared.tokens, {&view_, 1}, {&output, 1});
  return y;
}

at::Tensor WeightLinear::forward(const at::Tensor& x) const { return forward_as(x, x.scalar_type()); }

void WeightLinear::forward_add(const at::Tensor& x, at::Tensor& hidden) const {
  const PreparedTokens prepared(x, activations_);
  const kernels::MatmulOutput output{tensors::matrix_view(hidden), /*accumulate=*/true};
  kernels::matmul_grouped(prepared.tokens, {&view_, 1}, {&output, 1});
}

namespace {

// The weight that all the layers are parts of; null if there is none.
const CudaWeight* common_weight(std::span<const Linear* const> linears) {
  const CudaWeight* common = nullptr;
  for (const Linear* linear : linears) {
    const auto* on_cuda = dynamic_cast<const CudaLinear*>(linear);
    if (on_cuda == nullptr || (common != nullptr && &on_cuda->weight() != common)) return nullptr;
    common = &on_cuda->weight();
  }
  return common;
}

}  // namespace

std::vector<at::Tensor> forward_shared(const at::Tensor& x, std::span<const Linear* const> linears) {
  if (const CudaWeight* weight = common_weight(linears); weight != nullptr) {
    const at::Tensor product = weight->multiply(x, x.scalar_type());
    std::vector<at::Tensor> parts;
    for (const Linear* linear : linears)
      parts.push_back(static_cast<const CudaLinear*>(linear)->part_of(product));
    return parts;
  }
  std::vector<const WeightLinear*> fixed;
  for (const Linear* linear : linears) {
    const auto* weight_linear = dynamic_cast<const WeightLinear*>(linear);
    if (weight_linear == nullptr) break;
    if (!fixed.empty() && weight_linear->activations_ != fixed.front()->activations_) break;
    fixed.push_back(weight_linear);
  }
  std::vector<at::Tensor> results;
  if (fixed.size() != linears.size()) {
    for (const Linear* linear : linears) results.push_back(linear->forward(x));
    return results;
  }
  const PreparedTokens prepared(x, fixed.front()->activations_);
  std::vector<kernels::AnyWeight> weights;
  std::vector<kernels::MatmulOutput> outputs;
  for (const WeightLinear* linear : fixed) {
    results.push_back(tensors::empty(output_shape(x, linear->weight_.rows), x.scalar_type()));
    weights.push_back(linear->view_);
    outputs.push_back({tensors::matrix_view(results.back())});
  }
  kernels::matmul_grouped(prepared.tokens, weights, outputs);
  return results;
}

at::Tensor swiglu(const at::Tensor& x, const Linear& gate, const Linear& up) {
  const std::array<const Linear*, 2> both = {&gate, &up};
  if (const CudaWeight* weight = common_weight(both); weight != nullptr) return weight->swiglu(x);
  const std::vector<at::Tensor> products = forward_shared(x, both);
  return silu_mul(products[0], products[1]);
}

}  // namespace grille::nn
