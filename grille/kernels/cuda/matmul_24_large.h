#pragma once

#include "grille/kernels/matmul_24_sm90.h"

namespace grille::kernels {

// matmul_24_sm90 with a plan of Matmul24Kernel::kLarge on a CUDA stream; the arguments and the plan have been
// checked, and the rows of x begin at multiples of 16 bytes. In a build without CUDA it throws
// Error{kUnsupported}.
void matmul_24_large_cuda(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan);

}  // namespace grille::kernels
