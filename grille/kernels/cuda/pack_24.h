#pragma once

#include "grille/kernels/pack_24.h"

namespace grille::kernels {

// pack_24 on a CUDA stream; the arguments have been checked. In a build without CUDA it throws
// Error{kUnsupported}.
void pack_24_cuda(const Pack24Args& args);

}  // namespace grille::kernels
