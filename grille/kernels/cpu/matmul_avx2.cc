#include "grille/kernels/cpu/isa_region.h"
#include "grille/kernels/cpu/matmul_kernels.h"

#if defined(__x86_64__)

GRILLE_BEGIN_AVX2

// The algorithms are written on the primitives.
// clang-format off
#include "grille/kernels/cpu/simd_avx2-inl.h"
#include "grille/kernels/cpu/partial-inl.h"
#include "grille/kernels/cpu/matmul-inl.h"
// clang-format on

namespace grille::kernels {

const MatmulKernels& matmul_kernels_avx2() {
  static constexpr MatmulKernels kKernels = {
      [](const ConstMatrixView& x, ComputeClass) { return packed_size<FloatCompute>(x); }, pack_float,
      run_weight<FloatCompute>};
  return kKernels;
}

}  // namespace grille::kernels

GRILLE_END_ISA

#endif
