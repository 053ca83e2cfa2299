// Random matrices for the tests of operations on rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "grille/base/dtype.h"
#include "grille/base/matrix_view.h"
#include "grille/kernels/reference_values.h"

namespace grille::kernels::testing {

constexpr DType kFloatTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// Random normal values of standard deviation `size`; rows are `gap` elements longer than their columns.
struct Matrix {
  std::vector<std::byte> data;
  DType dtype;
  std::int64_t rows, cols, stride;

  Matrix(DType type, std::int64_t r, std::int64_t c, std::uint32_t seed, float size = 1.0f,
         std::int64_t gap = 3)
      : data(static_cast<std::size_t>(r * (c + gap)) * dtype_size(type)),
        dtype(type),
        rows(r),
        cols(c),
        stride(c + gap) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < rows * stride; ++i) {
      set_reference_value(dtype, data.data(), i, size * normal(random));
    }
  }
  MatrixView view() { return {data.data(), dtype, rows, cols, stride}; }
  double at(std::int64_t i, std::int64_t j) const {
    return reference_value(dtype, data.data(), i * stride + j);
  }
};

}  // namespace grille::kernels::testing
