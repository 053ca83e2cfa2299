#pragma once

#include "grille/kernels/pack_24.h"

namespace grille::kernels {

// pack_24 on the process's OpenMP threads; the arguments have been checked.
void pack_24_cpu(const Pack24Args& args);

}  // namespace grille::kernels
