#pragma once

#include "grille/kernels/unpack_24.h"

namespace grille::kernels {

// unpack_24 on a CUDA stream; the arguments have been checked. In a build without CUDA it throws
// Error{kUnsupported}.
void unpack_24_cuda(const Unpack24Args& args);

}  // namespace grille::kernels
