#include "grille/kernels/cuda/device/matmul_24_large.cuh"

namespace grille::kernels {

std::span<const LargeKernel> large_24_kernels_float16() {
  constexpr Sm90Type kType = Sm90Type::kFloat16;
  static const LargeKernel kernels[] = {
      sm90::large_kernel<sm90::LargeTile<kType, 1, 256, 4>>(),
      sm90::large_kernel<sm90::LargeTile<kType, 2, 192, 4>>(),
      sm90::large_kernel<sm90::LargeTile<kType, 1, 128, 6, true>>(),
      sm90::large_kernel<sm90::LargeTile<kType, 1, 64, 8, true>>(),
  };
  return kernels;
}

}  // namespace grille::kernels
