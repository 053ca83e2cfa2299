#include <algorithm>

#include "grille/kernels/cuda/stream_24_launch.h"

namespace grille::kernels {
namespace {

__global__ void __launch_bounds__(256)
    copy_rows_kernel(const std::uint8_t* from, std::int64_t stride_bytes, std::int64_t used_bytes,
                     std::uint8_t* to, std::int64_t row_bytes) {
  const std::uint8_t* source = from + blockIdx.x * stride_bytes;
  std::uint8_t* target = to + blockIdx.x * row_bytes;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; i < used_bytes;
       i += static_cast<std::int64_t>(gridDim.y) * blockDim.x)
    target[i] = source[i];
}

}  // namespace

cudaError_t copy_rows(const void* from, std::int64_t stride_bytes, std::int64_t used_bytes, void* to,
                      std::int64_t row_bytes, std::int64_t rows, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>((used_bytes + 1023) / 1024, 1, 64));
  copy_rows_kernel<<<dim3(static_cast<unsigned>(rows), blocks), 256, 0, stream>>>(
      static_cast<const std::uint8_t*>(from), stride_bytes, used_bytes, static_cast<std::uint8_t*>(to),
      row_bytes);
  return cudaGetLastError();
}

}  // namespace grille::kernels
