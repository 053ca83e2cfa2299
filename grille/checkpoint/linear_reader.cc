#include "grille/checkpoint/linear_reader.h"

#include <algorithm>
#include <limits>

#include <ATen/core/Tensor.h>

#include "grille/base/error.h"
#include "grille/checkpoint/quote_name.h"
#include "grille/tensors/finite.h"

namespace grille::checkpoint {
namespace {
using Strategy = QuantizationScheme::Strategy;
}  // namespace

const TensorInfo& LinearReader::expect(const std::string& name,
                                       const std::vector<std::int64_t>& shape) const {
  const TensorInfo& info = source_.info(name);
  if (info.shape != shape) {
    fail(ErrorCode::kCorruptData, "{}: expected {}, got {}", source_.locate(name), shape_text(shape),
         shape_text(info.shape));
  }
  return info;
}

void LinearReader::check_value_dtype(const std::string& name, DType dtype) const {
  if (dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16 ||
      dtype == DType::kFloat8E4M3 || dtype == DType::kInt8) {
    return;
  }
  fail(ErrorCode::kUnsupported, "{}: weights in {} are not supported", source_.locate(name),
       dtype_name(dtype));
}

void LinearReader::check_is(const std::string& name, const TensorInfo& info, DType dtype) const {
  if (info.dtype == dtype) return;
  fail(ErrorCode::kCorruptData, "{}: expected {}, got {}", source_.locate(name), dtype_name(dtype),
       dtype_name(info.dtype));
}

void LinearReader::check_finite(const std::string& name, std::int64_t row, const std::byte* data, DType dtype,
                                std::int64_t count) const {
  const std::int64_t bad = tensors::first_not_finite(data, dtype, count);
  if (bad < 0) return;
  fail(ErrorCode::kCorruptData, "{}: row {}, value {} is NaN or infinite", source_.locate(name), row, bad);
}

void LinearReader::check_shape_tensor(const char* shape_suffix) const {
  const std::string name = module_ + shape_suffix;
  const TensorInfo& info = source_.info(name);
  const bool two =
      info.shape == std::vector<std::int64_t>{2} || info.shape == std::vector<std::int64_t>{2, 1};
  if (!two) {
    fail(ErrorCode::kCorruptData, "{}: expected [2] or [2, 1], got {}", source_.locate(name),
         shape_text(info.shape));
  }
  std::int64_t shape[2];
  if (info.dtype == DType::kInt32) {
    std::int32_t narrow[2];
    source_.read(name, std::as_writable_bytes(std::span(narrow)));
    std::copy(narrow, narrow + 2, shape);
  } else {
    check_is(name, info, DType::kInt64);
    source_.read(name, std::as_writable_bytes(std::span(shape)));
  }
  if (shape[0] != rows_ || shape[1] != cols_) {
    fail(ErrorCode::kCorruptData, "{}: expected a weight of [{}, {}], got [{}, {}]", source_.locate(name),
         rows_, cols_, shape[0], shape[1]);
  }
}

void LinearReader::check_scales(const char* suffix, const at::Tensor& scale) const {
  const at::Tensor as_float = scale.to(at::kFloat).contiguous();
  const std::int64_t across = scale.dim() < 2 ? 1 : scale.size(1);
  for (std::int64_t i = 0; i < as_float.numel(); ++i) {
    const float value = as_float.const_data_ptr<float>()[i];
    if (value > 0 && value <= std::numeric_limits<float>::max()) continue;
    fail(ErrorCode::kCorruptData, "{}: the scale of row {}{} is {}, not a positive number",
         source_.locate(module_ + suffix), i / across,
         across > 1 ? fmt::format(", group {}", i % across) : "", value);
  }
}

void LinearReader::read_scales(tensors::Weight& weight, const QuantizationScheme& scheme) const {
  weight.bits = scheme.bits;
  weight.scale = read_scale(scheme);
  if (scheme.strategy == Strategy::kGroup || scheme.strategy == Strategy::kBlock) {
    weight.block_rows = scheme.block_rows;
    weight.block_cols = scheme.block_cols;
    weight.group_index = read_group_index(scheme);
  }
  if (scheme.symmetric) {
    check_zero_point();
    return;
  }
  if (weight.format == tensors::WeightFormat::kTwoFour) {
    fail(ErrorCode::kUnsupported, "{}: zero points of 2:4 weights are not supported",
         source_.locate(module_ + ".weight_zero_point"));
  }
  if (weight.scale.dim() == 1) weight.scale = weight.scale.unsqueeze(1);
  weight.zero_point = read_zero_point(scheme, weight.scale);
}

at::Tensor LinearReader::read_scale(const QuantizationScheme& scheme) const {
  const std::string name = module_ + ".weight_scale";
  const TensorInfo& info = source_.info(name);
  check(info.dtype == DType::kFloat32 || info.dtype == DType::kBFloat16 || info.dtype == DType::kFloat16,
        ErrorCode::kUnsupported, "{}: scales in {} are not supported", source_.locate(name),
        dtype_name(info.dtype));
  if (scheme.strategy == Strategy::kGroup || scheme.strategy == Strategy::kBlock) {
    if (scheme.strategy == Strategy::kGroup && cols_ % scheme.block_cols != 0) {
      fail(ErrorCode::kCorruptData, "{}: groups of {} do not divide {} columns", source_.locate(name),
           scheme.block_cols, cols_);
    }
    expect(name, {(rows_ - 1) / scheme.block_rows + 1, (cols_ - 1) / scheme.block_cols + 1});
    at::Tensor scale = source_.read_tensor(name);
    check_scales(".weight_scale", scale);
    return scale;
  }
  const std::int64_t count = info.bytes / static_cast<std::int64_t>(dtype_size(info.dtype));
  const bool per_row = scheme.strategy == Strategy::kChannel;
  const bool fits = count == (per_row ? rows_ : 1) && info.shape.size() <= 2 &&
                    (info.shape.size() < 2 || info.shape[1] == 1) && (!per_row || !info.shape.empty());
  if (!fits) {
    fail(ErrorCode::kCorruptData, "{}: {} does not hold {} for {} rows", source_.locate(name),
         shape_text(info.shape), per_row ? "a scale a row" : "one scale", rows_);
  }
  const at::Tensor scale = source_.read_tensor(name).reshape({count});
  check_scales(".weight_scale", scale);
  return per_row ? scale : scale.expand({rows_}).contiguous();
}

// Older writers store the zero points of symmetric schemes: zeros, which are skipped.
void LinearReader::check_zero_point() const {
  const std::string name = module_ + ".weight_zero_point";
  if (!source_.has(name)) return;
  constexpr std::int64_t kLargest = 8;  // bytes of one
  const TensorInfo& info = source_.info(name);
  const bool small = info.bytes <= source_.info(module_ + ".weight_scale").bytes * kLargest;
  std::vector<std::byte> bytes(small ? static_cast<std::size_t>(info.bytes) : 0);
  if (small) source_.read(name, bytes);
  const bool zero =
      small && std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
  if (!zero) {
    fail(ErrorCode::kUnsupported, "{}: zero points other than 0 in a symmetric scheme", source_.locate(name));
  }
}

}  // namespace grille::checkpoint
