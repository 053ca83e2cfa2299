#pragma once

#include "grille/kernels/select_24.h"

namespace grille::kernels {

// select_24 on a CUDA stream; the arguments have been checked. In a build without CUDA it throws
// Error{kUnsupported}.
void select_24_cuda(const Select24Args& args);

}  // namespace grille::kernels
