#include "grille/tensors/views.h"

#include <algorithm>
#include <array>
#include <utility>

#include "grille/base/error.h"

namespace grille::tensors {
namespace {
constexpr std::array<std::pair<DType, at::ScalarType>, 15> kTypes = {{
    {DType::kFloat64, at::kDouble},
    {DType::kFloat32, at::kFloat},
    {DType::kFloat16, at::kHalf},
    {DType::kBFloat16, at::kBFloat16},
    {DType::kFloat8E4M3, at::kFloat8_e4m3fn},
    {DType::kFloat8E5M2, at::kFloat8_e5m2},
    {DType::kInt64, at::kLong},
    {DType::kInt32, at::kInt},
    {DType::kInt16, at::kShort},
    {DType::kInt8, at::kChar},
    {DType::kUInt64, at::kUInt64},
    {DType::kUInt32, at::kUInt32},
    {DType::kUInt16, at::kUInt16},
    {DType::kUInt8, at::kByte},
    {DType::kBool, at::kBool},
}};
}  // namespace

DType dtype_from_torch(at::ScalarType type) {
  for (const auto& [ours, torch] : kTypes) {
    if (torch == type) return ours;
  }
  fail(ErrorCode::kUnsupported, "tensor type {} has no counterpart here", c10::toString(type));
}

DType dtype_of(const at::Tensor& tensor) { return dtype_from_torch(tensor.scalar_type()); }

at::ScalarType torch_dtype(DType dtype) { return kTypes[static_cast<std::size_t>(dtype)].second; }

MatrixView device_matrix_view(const at::Tensor& tensor) {
  check(tensor.defined() && tensor.dim() >= 1, ErrorCode::kInvalidArgument,
        "matrix view: expected a tensor with at least one dimension");
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  const std::int64_t cols = sizes.back();
  check(cols <= 1 || strides.back() == 1, ErrorCode::kInvalidArgument,
        "matrix view: expected a contiguous last dimension, got stride {}", strides.back());
  std::int64_t rows = 1;
  std::int64_t row_stride = cols;
  bool first = true;
  for (std::int64_t i = tensor.dim() - 2; i >= 0; --i) {  // inner to outer: each must continue the one below
    if (sizes[i] == 1) continue;
    if (first) {
      row_stride = strides[i];
      first = false;
    }
    check(strides[i] == row_stride * rows, ErrorCode::kInvalidArgument,
          "matrix view: dimension {} with stride {} cannot be merged into rows of stride {}", i, strides[i],
          row_stride);
    rows *= sizes[i];
  }
  return {tensor.data_ptr(), dtype_of(tensor), rows, cols, row_stride};
}

MatrixView device_rows_view(const at::Tensor& tensor) {
  check(tensor.defined() && tensor.dim() >= 1, ErrorCode::kInvalidArgument,
        "rows view: expected a tensor with at least one dimension");
  std::int64_t cols = 1;
  for (std::int64_t i = tensor.dim() - 1; i > 0; --i) {
    check(tensor.size(i) == 1 || tensor.stride(i) == cols, ErrorCode::kInvalidArgument,
          "rows view: dimension {} has stride {}, expected {}", i, tensor.stride(i), cols);
    cols *= tensor.size(i);
  }
  return {tensor.data_ptr(), dtype_of(tensor), tensor.size(0), cols, std::max(tensor.stride(0), cols)};
}

MatrixView matrix_view(const at::Tensor& tensor) {
  check(tensor.defined() && tensor.device().is_cpu(), ErrorCode::kInvalidArgument,
        "matrix view: expected a CPU tensor");
  return device_matrix_view(tensor);
}

MatrixView rows_view(const at::Tensor& tensor) {
  check(tensor.defined() && tensor.dim() >= 1 && tensor.device().is_cpu() && tensor.is_contiguous(),
        ErrorCode::kInvalidArgument, "rows view: expected a contiguous CPU tensor");
  std::int64_t cols = 1;
  for (const std::int64_t size : tensor.sizes().slice(1)) cols *= size;
  return {tensor.data_ptr(), dtype_of(tensor), tensor.size(0), cols, cols};
}

}  // namespace grille::tensors
