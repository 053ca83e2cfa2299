#include "grille/kernels/cpu/attention_kernels.h"
#include "grille/kernels/cpu/isa_region.h"

// The algorithms are written on the primitives.
// clang-format off
#include "grille/kernels/cpu/simd_scalar-inl.h"
#include "grille/kernels/cpu/partial-inl.h"
#include "grille/kernels/cpu/exp-inl.h"
#include "grille/kernels/cpu/gemm-inl.h"
#include "grille/kernels/cpu/attention-inl.h"
// clang-format on

namespace grille::kernels {

const AttentionKernels& attention_kernels_scalar() { return kAttentionKernels; }

}  // namespace grille::kernels
