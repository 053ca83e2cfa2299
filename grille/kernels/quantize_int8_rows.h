// Activations rounded to integers of 8 bits with one scale a row.
#pragma once

#include "grille/base/matrix_view.h"

namespace grille::kernels {

// scale[i] = amax of row i / 127.5 (the smallest positive step of float32 at 1, 2^-23, for a row of zeros),
// and q = x / scale rounded to nearest even, at most 127: compressed-tensors' symmetric dynamic scheme, in
// fp32. The integers are stored as bfloat16, which holds them exactly and which matmul multiplies. x: [m, k]
// float32, bfloat16 or float16; q: [m, k] bfloat16; scale: [m]. Throws Error{kInvalidArgument} for mismatched
// shapes or dtypes, or naming a row with a NaN or an infinity.
void quantize_int8_rows(const ConstMatrixView& x, const MatrixView& q, float* scale);

}  // namespace grille::kernels
