// The frame of pack_24, unpack_24 and select_24: a thread works on one unit of a row at a time, blocks stride
// over the units of all rows, and a kernel of one thread then spells out the first violation.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "grille/base/device.h"
#include "grille/kernels/cuda/device/violation.cuh"
#include "grille/kernels/cuda/launch.h"
#include "grille/kernels/pack_24_plan.h"

namespace grille::kernels {

constexpr int kMostUnitThreads = 256;  // of a block; for __launch_bounds__

// Calls body(row, unit) for each unit that is this thread's.
template <typename Body>
__device__ __forceinline__ void for_units(std::int64_t rows, std::int64_t units_per_row, Body&& body) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < rows * units_per_row; i += step) {
    body(i / units_per_row, i % units_per_row);
  }
}

// Enqueues kernel(params) as `plan` says and finish(params) as one thread after it. Throws Error{kDevice}.
template <typename Params>
void launch_units(const char* op, void (*kernel)(Params), void (*finish)(Params), const Params& params,
                  const Pack24Plan& plan, const Stream& where) {
  auto* stream = static_cast<cudaStream_t>(where.handle);
  check_cuda(clear_violation(params.violation, stream), op);
  if (plan.blocks > 0) kernel<<<static_cast<unsigned>(plan.blocks), plan.threads, 0, stream>>>(params);
  check_cuda(cudaGetLastError(), op);
  finish<<<1, 1, 0, stream>>>(params);
  check_cuda(cudaGetLastError(), op);
}

}  // namespace grille::kernels
