#include "grille/kernels/cpu/isa_region.h"
#include "grille/kernels/cpu/matmul_kernels.h"

#if defined(__x86_64__)

GRILLE_BEGIN_AVX512

// The algorithms are written on the primitives.
// clang-format off
#include "grille/kernels/cpu/simd_avx512-inl.h"
#include "grille/kernels/cpu/partial-inl.h"
#include "grille/kernels/cpu/decode_avx512-inl.h"
#include "grille/kernels/cpu/matmul-inl.h"
#include "grille/kernels/cpu/matmul_tiles-inl.h"
#include "grille/kernels/cpu/tiles_amx-inl.h"
// clang-format on

namespace grille::kernels {

const MatmulKernels& matmul_kernels_amx() {
  static constexpr MatmulKernels kKernels = tile_kernels<AmxTiles>();
  return kKernels;
}

}  // namespace grille::kernels

GRILLE_END_ISA

#endif
