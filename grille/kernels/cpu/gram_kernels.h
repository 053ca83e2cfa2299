// What each instruction set provides for add_gram, which validates and splits the work.
#pragma once

#include <cstdint>

#include "grille/base/cpu_features.h"

namespace grille::kernels {

struct GramKernels {
  std::int64_t panel;  // columns of a panel
  // packed [tokens, panel] = x [tokens, columns] as doubles, zeros beyond its columns.
  void (*pack)(const float* x, std::int64_t stride, std::int64_t tokens, std::int64_t columns,
               double* packed);
  // out [rows, cols] += a^T b, of two packed panels.
  void (*multiply)(const double* a, const double* b, std::int64_t tokens, double* out, std::int64_t stride,
                   std::int64_t rows, std::int64_t cols);
};

const GramKernels& gram_kernels_scalar();
const GramKernels& gram_kernels_avx2();
const GramKernels& gram_kernels_avx512();

}  // namespace grille::kernels
