// Devices, as torch and as the kernels name them.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "grille/base/device.h"

namespace grille::tensors {

// "cpu", "cuda" (the first one) or "cuda:N". The first CUDA device that is asked for loads torch's CUDA
// library; a program that never asks starts without it. Throws Error{kInvalidArgument} for another name or a
// device that is not there, Error{kUnsupported} in a build without CUDA or where torch's CUDA library cannot
// be loaded.
at::Device open_device(const std::string& name);

// The most memory that torch has held on the CUDA device at once, in bytes.
std::int64_t peak_device_bytes(at::Device device);

// The stream on which work on the tensor is to be put: torch's current one on the tensor's device.
Stream stream_of(const at::Tensor& tensor);

}  // namespace grille::tensors
