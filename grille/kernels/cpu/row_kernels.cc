#include "grille/kernels/cpu/row_kernels.h"

namespace grille::kernels {

const RowKernels& row_kernels() {
#if defined(__x86_64__)
  if (active_isa() >= Isa::kAvx512) return row_kernels_avx512();
  if (active_isa() == Isa::kAvx2) return row_kernels_avx2();
#endif
  return row_kernels_scalar();
}

}  // namespace grille::kernels
