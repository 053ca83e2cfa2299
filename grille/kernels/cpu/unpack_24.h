#pragma once

#include "grille/kernels/unpack_24.h"

namespace grille::kernels {

// unpack_24 on the process's OpenMP threads; the arguments have been checked.
void unpack_24_cpu(const Unpack24Args& args);

}  // namespace grille::kernels
