// The operations on rows, on a CUDA stream. Arguments have been checked; x, y and their partners lie on the
// stream's device. They only enqueue. In a build without CUDA they throw Error{kUnsupported}.
#pragma once

#include "grille/base/device.h"
#include "grille/base/matrix_view.h"

namespace grille::kernels {

// Throws Error{kInvalidArgument} that names the op and the dtypes that there are.
[[noreturn]] void refuse_row_dtype(const char* op, DType dtype);

void rms_norm_cuda(const ConstMatrixView& x, const float* weight, float eps, const MatrixView& y,
                   const Stream& stream);
void silu_mul_cuda(const ConstMatrixView& gate, const ConstMatrixView& up, const MatrixView& y,
                   const Stream& stream);
void silu_mul_pairs_cuda(const ConstMatrixView& x, const MatrixView& y, const Stream& stream);
void rope_cuda(const MatrixView& x, std::int64_t head_dim, const float* cos, const float* sin,
               const Stream& stream);
void quantize_fp8_rows_cuda(const ConstMatrixView& x, const MatrixView& q, float* scale,
                            const Stream& stream);

}  // namespace grille::kernels
