// Bytes on the current CUDA device, for tests.
#pragma once

#include <cstddef>
#include <vector>

#include "grille/kernels/cuda/launch.h"

namespace grille::kernels::testing {

class DeviceBytes {
 public:
  DeviceBytes(const void* data, std::size_t size) : size_(size) {
    check_cuda(cudaMalloc(&data_, size == 0 ? 1 : size), "cudaMalloc");
    check_cuda(cudaMemcpy(data_, data, size, cudaMemcpyHostToDevice), "cudaMemcpy");
    // A copy from pageable memory may return before it has arrived, and streams that do not wait for the
    // default one would overtake it.
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  template <typename T>
  explicit DeviceBytes(const std::vector<T>& values)
      : DeviceBytes(values.data(), values.size() * sizeof(T)) {}
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  template <typename T = void>
  T* data() {
    return static_cast<T*>(data_);
  }

  // Waits for the device.
  template <typename T>
  std::vector<T> to_host() const {
    std::vector<T> values(size_ / sizeof(T));
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check_cuda(cudaMemcpy(values.data(), data_, size_, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace grille::kernels::testing
