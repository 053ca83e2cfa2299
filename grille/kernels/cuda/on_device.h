// The fixture of tests that need a CUDA device: they are skipped where there is none.
#pragma once

#include <gtest/gtest.h>

#include "grille/kernels/cuda/launch.h"
#include "grille/kernels/cuda_devices.h"

namespace grille::kernels::testing {

// Tests run on a stream of their own, so that work put on the default stream by mistake shows.
template <typename Base>
class OnDevice : public Base {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    check_cuda(cudaStreamCreateWithFlags(&cuda_stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  void TearDown() override {
    if (cuda_stream_ != nullptr) cudaStreamDestroy(cuda_stream_);
  }
  Stream stream() const { return {{DeviceType::kCuda, 0}, cuda_stream_}; }

  cudaStream_t cuda_stream_ = nullptr;
};

}  // namespace grille::kernels::testing
