#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "grille/kernels/cuda/stream_24_params.h"

namespace grille::kernels {

struct Stream24Launch {
  CUtensorMap
      x_map;  // of all tokens: boxes of 128 bytes and token_tile / group_rows tokens, 128-byte swizzle
  Stream24Params params;
  int token_tile = 8;  // 8, 16, 32, 64 or 128
  int cluster = 1;
  int shared_bytes = 0;
  bool overlap_previous = false;
  cudaStream_t stream = nullptr;
};

// cudaErrorNoKernelImageForDevice: this build has no sm_90a code.
template <Sm90Type kType>
cudaError_t launch_stream_24(const Stream24Launch& launch);

// x with rows that begin at multiples of 16 bytes: [rows][row_bytes] from rows of `stride_bytes`.
cudaError_t copy_rows(const void* from, std::int64_t stride_bytes, std::int64_t used_bytes, void* to,
                      std::int64_t row_bytes, std::int64_t rows, cudaStream_t stream);

}  // namespace grille::kernels
