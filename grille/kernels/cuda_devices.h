// The CUDA devices of this machine.
#pragma once

#include "grille/base/device.h"

namespace grille::kernels {

// Devices that this process can use; 0 without a driver, and in a build without CUDA.
int cuda_device_count();

// Throws Error{kDevice} if there is no such device, Error{kUnsupported} in a build without CUDA.
DeviceCaps cuda_device_caps(int index);

}  // namespace grille::kernels
