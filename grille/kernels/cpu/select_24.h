#pragma once

#include "grille/kernels/select_24.h"

namespace grille::kernels {

// select_24 on the process's OpenMP threads; the arguments have been checked.
void select_24_cpu(const Select24Args& args);

}  // namespace grille::kernels
