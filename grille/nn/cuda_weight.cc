#include "grille/nn/cuda_weight.h"

#include <algorithm>

#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/formats/two_four_sm90.h"
#include "grille/kernels/cuda_devices.h"
#include "grille/kernels/matmul_24_sm90.h"
#include "grille/kernels/pack_24_sm90.h"
#include "grille/kernels/quantize_fp8_rows.h"
#include "grille/kernels/silu_mul.h"
#include "grille/tensors/device.h"
#include "grille/tensors/views.h"

namespace grille::nn {
namespace {

at::TensorOptions on(at::Device device, at::ScalarType dtype) {
  return at::TensorOptions().device(device).dtype(dtype);
}

// x, or x rounded to FP8 with a scale a token.
struct CudaTokens {
  at::Tensor values;
  at::Tensor scales;

  CudaTokens(const at::Tensor& x, bool rounded) : values(x) {
    if (!rounded) return;
    values = at::empty(x.sizes(), on(x.device(), at::kFloat8_e4m3fn));
    scales = at::empty({x.size(0)}, on(x.device(), at::kFloat));
    kernels::quantize_fp8_rows(tensors::device_matrix_view(x), tensors::device_matrix_view(values),
                               scales.mutable_data_ptr<float>(), tensors::stream_of(x));
  }
};

class DenseWeight final : public CudaWeight {
 public:
  DenseWeight(at::Tensor values, at::Tensor bias, std::string format)
      : values_(std::move(values)), bias_(std::move(bias)), format_(std::move(format)) {
    if (bias_.defined()) bias_ = bias_.to(values_.scalar_type());
  }

  at::Tensor multiply(const at::Tensor& x, at::ScalarType dtype) const override {
    const bool widen = dtype == at::kFloat && x.scalar_type() != at::kFloat;
    if (!widen) return at::linear(x, values_, bias_).to(dtype);
    const at::Tensor y = at::mm(x, values_.t(), at::kFloat);
    return bias_.defined() ? y.add(bias_) : y;
  }
  void multiply_add(const at::Tensor& x, at::Tensor& hidden) const override {
    hidden.addmm_(x, values_.t());
    if (bias_.defined()) hidden.add_(bias_);
  }
  std::int64_t rows() const override { return values_.size(0); }
  std::string format() const override { return format_; }

 private:
  at::Tensor values_;  // [rows, in_features]
  at::Tensor bias_;
  std::string format_;
};

class Float8Weight final : public CudaWeight {
 public:
  Float8Weight(at::Tensor values, const at::Tensor& scale, at::Tensor bias)
      : values_(std::move(values)), scale_(scale.view({1, -1})), bias_(std::move(bias)) {}

  at::Tensor multiply(const at::Tensor& x, at::ScalarType dtype) const override {
    const CudaTokens tokens(x, true);
    // Products with a scale a row have bfloat16 results alone.
    at::Tensor y = at::_scaled_mm(tokens.values, values_.t(), tokens.scales.view({-1, 1}), scale_, {}, {},
                                  at::kBFloat16, /*use_fast_accum=*/true);
    if (bias_.defined()) y = y.add(bias_);
    return y.to(dtype);
  }
  std::int64_t rows() const override { return values_.size(0); }
  std::string format() const override { return "dense float8_e4m3fn"; }

  static bool fits(std::int64_t rows, std::int64_t cols) { return rows % 16 == 0 && cols % 16 == 0; }

 private:
  at::Tensor values_;  // [rows, in_features]
  at::Tensor scale_;   // float32 [1, rows]
  at::Tensor bias_;
};

class TwoFourWeight final : public CudaWeight {
 public:
  TwoFourWeight(at::Tensor slabs, formats::TwoFourSm90View view, at::Tensor scale, at::Tensor bias,
                std::shared_ptr<CudaWorkspace> workspace)
      : slabs_(std::move(slabs)),
        view_(view),
        scale_(std::move(scale)),
        bias_(std::move(bias)),
        workspace_(std::move(workspace)) {}

  at::Tensor multiply(const at::Tensor& x, at::ScalarType dtype) const override {
    at::Tensor y = at::empty({x.size(0), view_.rows}, on(x.device(), dtype));
    run(x, y, {});
    return y;
  }
  void multiply_add(const at::Tensor& x, at::Tensor& hidden) const override { run(x, hidden, hidden); }
  at::Tensor swiglu(const at::Tensor& x) const override {
    // The streaming kernel, which is the fastest for few tokens, has no such epilogue; none gives float32.
    if (x.size(0) <= kernels::kMost24StreamTokens || x.scalar_type() == at::kFloat)
      return CudaWeight::swiglu(x);
    at::Tensor y = at::empty({x.size(0), view_.rows / 2}, on(x.device(), x.scalar_type()));
    run(x, y, {}, /*swiglu=*/true);
    return y;
  }
  std::int64_t rows() const override { return view_.rows; }
  std::string format() const override { return fmt::format("2:4 {}", dtype_name(view_.dtype)); }

 private:
  void run(const at::Tensor& x, const at::Tensor& y, const at::Tensor& residual, bool swiglu = false) const {
    if (x.size(0) == 0) return;
    const CudaTokens tokens(x, scale_.defined());
    kernels::Matmul24Sm90Args args;
    args.x = tensors::device_matrix_view(tokens.values);
    args.weight = view_;
    if (scale_.defined()) {
      args.x_scale = tokens.scales.const_data_ptr<float>();
      args.weight_scale = scale_.const_data_ptr<float>();
    }
    if (bias_.defined()) args.bias = bias_.const_data_ptr<float>();
    if (residual.defined()) args.residual = tensors::device_matrix_view(residual);
    args.y = tensors::device_matrix_view(y);
    args.swiglu = swiglu;
    args.overlap_previous = true;  // nothing writes weights after loading
    args.stream = tensors::stream_of(x);
    const kernels::Matmul24Sm90Problem problem{.m = x.size(0),
                                               .n = view_.rows,
                                               .k = view_.cols,
                                               .dtype = view_.dtype,
                                               .x_aligned = kernels::is_matmul_24_sm90_aligned(args.x),
                                               .swiglu = swiglu};
    const kernels::Matmul24Sm90Plan plan =
        kernels::plan_matmul_24_sm90(problem, kernels::sm90_caps(args.stream));
    const at::Tensor& workspace =
        workspace_->reserve(kernels::matmul_24_sm90_workspace(problem, plan), x.device());
    args.workspace = workspace.mutable_data_ptr();
    args.workspace_bytes = workspace.nbytes();
    kernels::matmul_24_sm90(args);
  }

  at::Tensor slabs_;
  formats::TwoFourSm90View view_;
  at::Tensor scale_;  // float32 [rows] or undefined
  at::Tensor bias_;   // float32 [rows] or undefined
  std::shared_ptr<CudaWorkspace> workspace_;
};

std::string dense_format(at::ScalarType dtype) {
  return fmt::format("dense {}", dtype_name(tensors::dtype_from_torch(dtype)));
}

// What the values of an expanded weight were; runnable() made integers bfloat16.
std::string stored_name(const WeightLinear& layer) {
  if (layer.activations() == Activations::kInt8) return "int8, inputs not rounded";
  const tensors::Weight& weight = layer.weight();
  if (weight.quantized() && weight.dtype() == DType::kBFloat16) return "int8";
  return std::string(dtype_name(weight.dtype()));
}

// The same tensor of every layer, on the device, as rows of one.
at::Tensor merge(const std::vector<at::Tensor>& parts, const CudaWeightOptions& options) {
  std::vector<at::Tensor> moved;
  for (const at::Tensor& part : parts) {
    if (!part.defined()) return {};
    moved.push_back(part.to(options.device));
  }
  if (moved.size() == 1) return moved.front();
  if (!options.interleave) return at::cat(moved, 0);
  std::vector<std::int64_t> shape(moved.front().sizes().begin(), moved.front().sizes().end());
  shape.front() *= static_cast<std::int64_t>(moved.size());
  return at::stack(moved, 1).reshape(shape);
}

// What `get` says of each layer, merged; bytes where torch has no such copy of the type.
template <typename Get>
at::Tensor merge_of(std::span<const WeightLinear* const> layers, const CudaWeightOptions& options,
                    Get&& get) {
  std::vector<at::Tensor> parts;
  for (const WeightLinear* layer : layers) parts.push_back(get(*layer));
  const at::ScalarType dtype = parts.front().defined() ? parts.front().scalar_type() : at::kFloat;
  if (dtype != at::kFloat8_e4m3fn) return merge(parts, options);
  for (at::Tensor& part : parts) part = part.view(at::kByte);
  return merge(parts, options).view(dtype);
}

std::unique_ptr<CudaWeight> make_two_four(std::span<const WeightLinear* const> layers,
                                          const CudaWeightOptions& options, const at::Tensor& bias,
                                          std::shared_ptr<CudaWorkspace> workspace) {
  const at::Tensor values =
      merge_of(layers, options, [](const WeightLinear& layer) { return layer.weight().values; });
  const at::Tensor mask =
      merge_of(layers, options, [](const WeightLinear& layer) { return layer.weight().mask; });
  const at::Tensor scale = merge_of(layers, options, [](const WeightLinear& layer) { return layer.scale(); });
  const formats::TwoFourBitmaskView from{.values = values.const_data_ptr(),
                                         .mask = mask.const_data_ptr<std::uint8_t>(),
                                         .dtype = tensors::dtype_of(values),
                                         .rows = values.size(0),
                                         .cols = layers.front()->in_features(),
                                         .value_stride = values.size(1),
                                         .mask_stride = mask.size(1)};
  formats::TwoFourSm90View view{nullptr, from.dtype, from.rows, from.cols};
  at::Tensor slabs = at::empty({view.layout().bytes()}, on(options.device, at::kByte));
  at::Tensor found = at::empty({static_cast<std::int64_t>(sizeof(kernels::TwoFourViolation))},
                               on(options.device, at::kByte));
  view.slabs = slabs.const_data_ptr();
  kernels::pack_24_sm90({.weight = from,
                         .slabs = slabs.mutable_data_ptr(),
                         .violation = static_cast<kernels::TwoFourViolation*>(found.mutable_data_ptr()),
                         .stream = tensors::stream_of(values)});
  const at::Tensor violation = found.cpu();
  kernels::check_packed_sm90(*static_cast<const kernels::TwoFourViolation*>(violation.const_data_ptr()),
                             "2:4 weight");
  return std::make_unique<TwoFourWeight>(std::move(slabs), view, scale, bias, std::move(workspace));
}

}  // namespace

const at::Tensor& CudaWorkspace::reserve(std::size_t bytes, at::Device device) {
  if (!memory_.defined() || memory_.nbytes() < bytes)
    memory_ = at::zeros({static_cast<std::int64_t>(bytes)}, on(device, at::kByte));
  return memory_;
}

void CudaWeight::multiply_add(const at::Tensor& x, at::Tensor& hidden) const {
  hidden.add_(multiply(x, hidden.scalar_type()));
}

at::Tensor CudaWeight::swiglu(const at::Tensor& x) const {
  const at::Tensor pairs = multiply(x, x.scalar_type());
  at::Tensor y = at::empty({pairs.size(0), pairs.size(1) / 2}, pairs.options());
  kernels::silu_mul_pairs(tensors::device_matrix_view(pairs), tensors::device_matrix_view(y),
                          tensors::stream_of(x));
  return y;
}

bool fit_in_one_cuda_weight(std::span<const WeightLinear* const> layers) {
  const WeightLinear& first = *layers.front();
  return std::all_of(layers.begin(), layers.end(), [&](const WeightLinear* layer) {
    return layer->weight().format == first.weight().format &&
           layer->weight().dtype() == first.weight().dtype() && layer->in_features() == first.in_features() &&
           layer->activations() == first.activations() && layer->bias().defined() == first.bias().defined();
  });
}

std::unique_ptr<CudaWeight> make_cuda_weight(std::span<const WeightLinear* const> layers,
                                             const CudaWeightOptions& options,
                                             std::shared_ptr<CudaWorkspace> workspace) {
  check(!layers.empty() && fit_in_one_cuda_weight(layers), ErrorCode::kInvalidArgument,
        "cuda weight: expected layers of one format, dtype, input and kind of activations");
  check(!options.interleave ||
            (layers.size() == 2 && layers.front()->out_features() == layers.back()->out_features()),
        ErrorCode::kInvalidArgument, "cuda weight: expected two layers of equal size to interleave");
  const WeightLinear& first = *layers.front();
  const bool two_four = first.weight().format == tensors::WeightFormat::kTwoFour;
  const bool rounded = first.activations() == Activations::kFp8;
  const at::ScalarType stored = first.weight().values.scalar_type();
  const int capability = kernels::cuda_device_caps(options.device.index()).compute_capability;
  const at::Tensor bias = merge_of(layers, options, [](const WeightLinear& layer) { return layer.bias(); });

  const bool packable =
      rounded || (!first.weight().quantized() && stored == options.compute && stored != at::kFloat);
  if (two_four && packable && capability == 90)
    return make_two_four(layers, options, bias, std::move(workspace));

  std::int64_t rows = 0;
  for (const WeightLinear* layer : layers) rows += layer->out_features();
  if (!two_four && rounded && capability >= 89 && Float8Weight::fits(rows, first.in_features())) {
    const at::Tensor values =
        merge_of(layers, options, [](const WeightLinear& layer) { return layer.weight().values; });
    const at::Tensor scale =
        merge_of(layers, options, [](const WeightLinear& layer) { return layer.scale(); });
    return std::make_unique<Float8Weight>(values, scale, bias);
  }
  const bool plain = !two_four && !first.weight().quantized();
  const at::Tensor values = merge_of(layers, options, [&](const WeightLinear& layer) {
    return plain ? layer.weight().values : tensors::to_dense_float(layer.weight());
  });
  std::string format = dense_format(options.compute);
  if (!plain)
    format = fmt::format("{}, expanded from {}{}", format, two_four ? "2:4 " : "", stored_name(first));
  return std::make_unique<DenseWeight>(values.to(options.compute), bias, format);
}

std::unique_ptr<CudaWeight> dense_cuda_weight(at::Tensor values, const at::Tensor& bias) {
  const std::string format = dense_format(values.scalar_type());
  const at::Tensor moved = bias.defined() ? bias.to(values.device()) : bias;
  return std::make_unique<DenseWeight>(std::move(values), moved, format);
}

CudaLinear::CudaLinear(std::shared_ptr<const CudaWeight> weight, std::int64_t in_features,
                       std::int64_t out_features, std::int64_t first, std::int64_t step)
    : weight_(std::move(weight)),
      in_features_(in_features),
      out_features_(out_features),
      first_(first),
      step_(step) {}

at::Tensor CudaLinear::part_of(const at::Tensor& product) const {
  const at::Tensor rest = product.narrow(1, first_, (out_features_ - 1) * step_ + 1);
  return step_ == 1 ? rest : rest.slice(1, 0, rest.size(1), step_);
}

at::Tensor CudaLinear::forward_as(const at::Tensor& x, at::ScalarType dtype) const {
  check(x.dim() >= 1 && x.size(-1) == in_features_, ErrorCode::kInvalidArgument,
        "linear: expected {} input features, got {}", in_features_, x.size(-1));
  const at::Tensor part = part_of(weight_->multiply(x.reshape({-1, in_features_}), dtype));
  if (x.dim() == 2) return part;
  std::vector<std::int64_t> shape(x.sizes().begin(), x.sizes().end());
  shape.back() = out_features_;
  return part.reshape(shape);
}

void CudaLinear::forward_add(const at::Tensor& x, at::Tensor& hidden) const {
  const bool whole = out_features_ == weight_->rows() && x.dim() == 2;
  if (!whole) return Linear::forward_add(x, hidden);
  weight_->multiply_add(x, hidden);
}

}  // namespace grille::nn
