#pragma once

#include "grille/kernels/matmul_24_sm90.h"

namespace grille::kernels {

// matmul_24_sm90 on a CUDA stream; the arguments and the plan have been checked. In a build without CUDA
// these throw Error{kUnsupported}.
void stream_24_sm90_cuda(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan);
Sm90Caps sm90_caps_cuda(const Stream& stream);

}  // namespace grille::kernels
