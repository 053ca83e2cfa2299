// The device of a run.
#pragma once

#include <cuda_runtime_api.h>

#include "grille/benchmark/cuda/nvml.h"
#include "grille/benchmark/linear.h"

namespace grille::benchmark {

class OwnStream {
 public:
  OwnStream();
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Throws Error{kUnsupported} where there is no CUDA device, Error{kInvalidArgument} where there is no such
// one.
void check_device(int device);

// What the runtime and the driver say, and the bandwidth, which is measured. Library versions are left empty.
DeviceRecord describe_device(int device, const Nvml& nvml, cudaStream_t stream);

}  // namespace grille::benchmark
