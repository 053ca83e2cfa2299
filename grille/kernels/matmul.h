// y = x W^T with a dense weight, on the CPU.
#pragma once

#include <cstdint>
#include <span>

#include "grille/base/matrix_view.h"
#include "grille/formats/two_four.h"

namespace grille::kernels {

// The token side, shared by every weight format.
struct MatmulTokens {
  ConstMatrixView x;               // [m, k] float32, bfloat16, float16, or float8_e4m3 with x_scale
  const float* x_scale = nullptr;  // [m] for float8_e4m3, else null
};

// What is done to the accumulator (fp32) before it is stored: y = acc * x_scale * weight_scale + bias
// (+ the old y when `accumulate`, in fp32, for residual connections).
struct MatmulOutput {
  MatrixView y;  // [m, n] float32, bfloat16 or float16; must not alias x
  bool accumulate = false;
};

struct DenseWeight {
  ConstMatrixView weight;       // [n, k] float32, bfloat16, float16 or float8_e4m3
  const float* scale = nullptr; // [n] for float8_e4m3, else null
  const float* bias = nullptr;  // [n] or null
};

struct TwoFourWeight {
  formats::TwoFourBitmaskView weight;  // [n, k], same dtypes
  const float* scale = nullptr;
  const float* bias = nullptr;
};

// Products accumulate in fp32. Where x and the weight are both bfloat16 or float8_e4m3, products are
// bfloat16 x bfloat16 (exact in fp32); in every other combination both sides are converted to fp32 first.
// The result is independent of m (a row of y depends on its row of x alone) only within a kernel choice:
// small m and large m sum in different orders. Any m >= 0, n >= 0, k >= 1; matmul_24 wants k % 4 == 0.
// Runs on the process's OpenMP threads; allocates scratch of O(m k + n-tile k) only.
// Throws Error{kInvalidArgument} on shape or dtype mismatch, naming the values.
void matmul_dense(const MatmulTokens& tokens, const DenseWeight& weight, const MatmulOutput& output);
void matmul_24(const MatmulTokens& tokens, const TwoFourWeight& weight, const MatmulOutput& output);

}  // namespace grille::kernels
