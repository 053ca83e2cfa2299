#include "grille/kernels/cpu/attention_kernels.h"
#include "grille/kernels/cpu/isa_region.h"

#if defined(__x86_64__)

GRILLE_BEGIN_AVX2

// The algorithms are written on the primitives.
// clang-format off
#include "grille/kernels/cpu/simd_avx2-inl.h"
#include "grille/kernels/cpu/partial-inl.h"
#include "grille/kernels/cpu/exp-inl.h"
#include "grille/kernels/cpu/gemm-inl.h"
#include "grille/kernels/cpu/attention-inl.h"
// clang-format on

namespace grille::kernels {

const AttentionKernels& attention_kernels_avx2() { return kAttentionKernels; }

}  // namespace grille::kernels

GRILLE_END_ISA

#endif
