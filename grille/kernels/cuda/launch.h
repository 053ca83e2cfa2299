// What every launcher does around its kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "grille/base/device.h"
#include "grille/kernels/cuda_devices.h"

namespace grille::kernels {

// Throws Error{kDevice} "<op>: <what CUDA says>" unless `status` is success.
void check_cuda(cudaError_t status, const char* op);

// Makes a device current while it lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = -1;  // -1: the device was current already
};

// Of the current device.
DeviceCaps current_device_caps();

}  // namespace grille::kernels
