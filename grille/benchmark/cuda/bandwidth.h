// How fast the current device reads and copies its memory.
#pragma once

#include <cuda_runtime_api.h>

namespace grille::benchmark {

struct Bandwidth {
  double read = 0;  // bytes a second
  double copy = 0;  // bytes read plus bytes written a second
};

// Over 2 GiB, the median of 9 runs each. Takes 4 GiB of device memory; waits for the stream.
Bandwidth measure_bandwidth(cudaStream_t stream);

}  // namespace grille::benchmark
