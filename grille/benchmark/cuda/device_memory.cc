#include "grille/benchmark/cuda/device_memory.h"

#include "grille/base/error.h"
#include "grille/kernels/cuda/launch.h"

namespace grille::benchmark {

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
  const cudaError_t status = cudaMalloc(&data_, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // not sticky: the caller may go on with less
    fail(ErrorCode::kOutOfMemory,
         "bench linear: {} MB more do not fit on the device; measure fewer or smaller shapes", bytes >> 20);
  }
  kernels::check_cuda(status, "cudaMalloc");
}

DeviceMemory::~DeviceMemory() { cudaFree(data_); }

}  // namespace grille::benchmark
