#include "grille/kernels/cpu/isa_region.h"
#include "grille/kernels/cpu/matmul_kernels.h"

// The algorithms are written on the primitives.
// clang-format off
#include "grille/kernels/cpu/simd_scalar-inl.h"
#include "grille/kernels/cpu/partial-inl.h"
#include "grille/kernels/cpu/matmul-inl.h"
// clang-format on

namespace grille::kernels {

const MatmulKernels& matmul_kernels_scalar() {
  static constexpr MatmulKernels kKernels = {
      [](const ConstMatrixView& x, ComputeClass) { return packed_size<FloatCompute>(x); }, pack_float,
      run_weight<FloatCompute>};
  return kKernels;
}

}  // namespace grille::kernels
