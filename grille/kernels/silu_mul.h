// The gate of SwiGLU.
#pragma once

#include "grille/base/matrix_view.h"

namespace grille::kernels {

// y = gate / (1 + exp(-gate)) * up, in fp32, rounded once (arXiv 2002.05202).
// All [m, n] float32, bfloat16 or float16, of one dtype; y may be gate or up.
// Throws Error{kInvalidArgument} on mismatch.
void silu_mul(const ConstMatrixView& gate, const ConstMatrixView& up, const MatrixView& y);

}  // namespace grille::kernels
