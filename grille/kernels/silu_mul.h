// The gate of SwiGLU.
#pragma once

#include "grille/base/device.h"
#include "grille/base/matrix_view.h"

namespace grille::kernels {

// y = gate / (1 + exp(-gate)) * up, in fp32, rounded once (arXiv 2002.05202).
// All [m, n] float32, bfloat16 or float16, of one dtype; y may be gate or up.
// On a CUDA stream all lie on its device, and the call only enqueues.
// Throws Error{kInvalidArgument} on mismatch.
void silu_mul(const ConstMatrixView& gate, const ConstMatrixView& up, const MatrixView& y,
              const Stream& stream = {});

// The same with gate and up side by side: y[i, j] = silu(x[i, 2 j]) * x[i, 2 j + 1]. x [m, 2 n], y [m, n], of
// one dtype; y must not overlap x. On a CUDA stream only: there, one product of interleaved weights gives x.
// Throws Error{kInvalidArgument} on mismatch, Error{kUnsupported} for the CPU.
void silu_mul_pairs(const ConstMatrixView& x, const MatrixView& y, const Stream& stream);

}  // namespace grille::kernels
