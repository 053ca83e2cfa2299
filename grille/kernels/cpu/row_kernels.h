// What each instruction set provides for operations on single rows. The callers validate and split the rows.
#pragma once

#include <cstdint>

#include "grille/base/cpu_features.h"
#include "grille/base/dtype.h"

namespace grille::kernels {

// `type` is float32, bfloat16 or float16.
struct RowKernels {
  // The largest magnitude; NaN if the row holds a NaN or an infinity.
  float (*largest_magnitude)(DType type, const void* x, std::int64_t count);
  // q = x / scale as float8_e4m3; returns how many values saturated.
  std::int64_t (*round_to_fp8)(DType type, const void* x, std::int64_t count, float scale, std::uint8_t* q);
  void (*rms_norm)(DType type, const void* x, const float* weight, float eps, std::int64_t count, void* y);
  void (*silu_mul)(DType type, const void* gate, const void* up, std::int64_t count, void* y);
  // One head: pairs (i, i + half).
  void (*rope)(DType type, void* x, std::int64_t half, const float* cos, const float* sin);
  void (*convert)(DType from, const void* x, std::int64_t count, DType to, void* y);
  // The lowest index of the largest value, or -1 if a value is NaN.
  std::int64_t (*argmax)(const float* x, std::int64_t count);
  // The sum of exp(x - shift), where shift is the largest value.
  double (*sum_exp)(const float* x, std::int64_t count, float shift);
};

const RowKernels& row_kernels_scalar();
const RowKernels& row_kernels_avx2();
const RowKernels& row_kernels_avx512();

// Those of active_isa().
const RowKernels& row_kernels();

}  // namespace grille::kernels
