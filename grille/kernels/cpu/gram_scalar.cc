#include "grille/kernels/cpu/gram_kernels.h"
#include "grille/kernels/cpu/isa_region.h"

// The algorithms are written on the primitives.
// clang-format off
#include "grille/kernels/cpu/simd_scalar-inl.h"
#include "grille/kernels/cpu/gram-inl.h"
// clang-format on

namespace grille::kernels {

const GramKernels& gram_kernels_scalar() { return kGramKernels; }

}  // namespace grille::kernels
