#include "grille/kernels/cuda/device/matmul_24_large.cuh"

namespace grille::kernels {

std::span<const LargeKernel> large_24_kernels_float16() {
  constexpr Operand kType = Operand::kFloat16;
  static const LargeKernel kernels[] = {
      large_kernel<LargeTile<kType, 1, 256, 4>>(),
      large_kernel<LargeTile<kType, 2, 192, 4>>(),
      large_kernel<LargeTile<kType, 1, 128, 6>>(),
      large_kernel<LargeTile<kType, 1, 64, 8>>(),
  };
  return kernels;
}

}  // namespace grille::kernels
