// Non-owning views of row-major matrices: how torch-free code sees a tensor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "grille/base/dtype.h"

namespace grille {

// [rows, cols], element (i, j) at data + (i * row_stride + j) * dtype_size(dtype).
struct ConstMatrixView {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;  // in elements, >= cols

  const std::byte* row(std::int64_t i) const {
    return static_cast<const std::byte*>(data) +
           i * row_stride * static_cast<std::int64_t>(dtype_size(dtype));
  }
};

struct MatrixView {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;

  std::byte* row(std::int64_t i) const {
    return static_cast<std::byte*>(data) + i * row_stride * static_cast<std::int64_t>(dtype_size(dtype));
  }
  operator ConstMatrixView() const { return {data, dtype, rows, cols, row_stride}; }
};

}  // namespace grille
