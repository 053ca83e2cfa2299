#include "grille/kernels/cpu/gram_kernels.h"
#include "grille/kernels/cpu/isa_region.h"

#if defined(__x86_64__)

GRILLE_BEGIN_AVX512

// The algorithms are written on the primitives.
// clang-format off
#include "grille/kernels/cpu/simd_avx512-inl.h"
#include "grille/kernels/cpu/gram-inl.h"
// clang-format on

namespace grille::kernels {

const GramKernels& gram_kernels_avx512() { return kGramKernels; }

}  // namespace grille::kernels

GRILLE_END_ISA

#endif
