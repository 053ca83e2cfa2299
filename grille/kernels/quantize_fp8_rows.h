// Matrices rounded to FP8 e4m3 with one scale a row.
#pragma once

#include <cstdint>

#include "grille/base/device.h"
#include "grille/base/matrix_view.h"

namespace grille::kernels {

// Activations, a scale per token: scale[i] = max(amax of row i / 448, 1 / (448 * 512)), as vLLM's dynamic
// per-token scales, and q = x / scale rounded to nearest even. No value saturates.
// x: [m, k] float32, bfloat16 or float16; q: [m, k] float8_e4m3; scale: [m].
// Throws Error{kInvalidArgument} for mismatched shapes or dtypes, or naming a row with a NaN or an infinity.
// On a CUDA stream all lie on its device, and the call only enqueues: there, a row with a NaN or an infinity
// gets that as its scale instead, so that what is computed from it is not finite either.
void quantize_fp8_rows(const ConstMatrixView& x, const MatrixView& q, float* scale,
                       const Stream& stream = {});

// Weights, a scale per output row: scale[i] = amax of row i / 448, rounded to `scale_dtype` (float32,
// bfloat16 or float16: what the checkpoint stores); 1 for an all-zero row, and the dtype's smallest positive
// number where rounding gave zero. Errors as above.
void fp8_weight_scales(const ConstMatrixView& weight, DType scale_dtype, float* scale);

// q = weight / scale[row], rounded to nearest even, saturating. Returns how many values saturated: those that
// would have rounded beyond 448 (|weight / scale| > 464). Errors as above.
std::int64_t round_to_fp8_rows(const ConstMatrixView& weight, const float* scale, const MatrixView& q);

}  // namespace grille::kernels
