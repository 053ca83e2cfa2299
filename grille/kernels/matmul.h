// y = x W^T on the CPU, with a dense or a 2:4 weight.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "grille/base/matrix_view.h"
#include "grille/formats/two_four.h"

namespace grille::kernels {

// The token side, shared by every weight format.
struct MatmulTokens {
  ConstMatrixView x;               // [m, k] float32, bfloat16, float16, or float8_e4m3 with x_scale
  const float* x_scale = nullptr;  // [m], or null: 1, but for float8_e4m3
};

// What is done to the accumulator (fp32) before it is stored: y = acc * x_scale * weight_scale + bias
// (+ the old y when `accumulate`, in fp32, for residual connections).
struct MatmulOutput {
  MatrixView y;  // [m, n] float32, bfloat16 or float16; must not alias x or another output
  bool accumulate = false;
};

struct DenseWeight {
  ConstMatrixView weight;        // [n, k] float32, bfloat16, float16 or float8_e4m3
  const float* scale = nullptr;  // [n], or null: 1, but for float8_e4m3
  const float* bias = nullptr;   // [n] or null
};

struct TwoFourWeight {
  formats::TwoFourBitmaskView weight;  // [n, k], same dtypes
  const float* scale = nullptr;
  const float* bias = nullptr;
};

using AnyWeight = std::variant<DenseWeight, TwoFourWeight>;

// Products accumulate in fp32. Where x and the weight are both bfloat16 or float8_e4m3, products are
// bfloat16 x bfloat16 (exact in fp32; bfloat16 subnormals, below 1.2e-38, may count as zero); in every
// other combination both sides are converted to fp32 first. A row of y depends on its own row of x alone
// and neither on m nor on the number of threads, bit for bit (it does depend on the instruction set), but
// for two kinds of m whose sums have an order of their own: on AVX-512 a single token (on AMD's only if the
// weight is 2:4 float8), on AMX 8 tokens and more.
// Any m >= 0, n >= 0, k >= 1; matmul_24 wants k % 4 == 0. float8 NaN codes are not weights: whoever reads
// a file refuses them. Runs on the process's OpenMP threads. Scratch, kept for the next call: O(m k), and
// 1 MiB + O(m) a thread.
// Throws Error{kInvalidArgument} on shape or dtype mismatch, naming the values.
void matmul_dense(const MatmulTokens& tokens, const DenseWeight& weight, const MatmulOutput& output);
void matmul_24(const MatmulTokens& tokens, const TwoFourWeight& weight, const MatmulOutput& output);

// Several weights of the same k on the same tokens (q, k, v; gate, up): equal to one call a weight, but
// with one preparation of x and one parallel region, which is what small m pays for.
void matmul_grouped(const MatmulTokens& tokens, std::span<const AnyWeight> weights,
                    std::span<const MatmulOutput> outputs);

}  // namespace grille::kernels
