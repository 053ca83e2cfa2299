#include "grille/kernels/cpu/isa_region.h"
#include "grille/kernels/cpu/row_kernels.h"

// The algorithms are written on the primitives.
// clang-format off
#include "grille/kernels/cpu/simd_scalar-inl.h"
#include "grille/kernels/cpu/partial-inl.h"
#include "grille/kernels/cpu/exp-inl.h"
#include "grille/kernels/cpu/rows-inl.h"
// clang-format on

namespace grille::kernels {

const RowKernels& row_kernels_scalar() { return kRowKernels; }

}  // namespace grille::kernels
