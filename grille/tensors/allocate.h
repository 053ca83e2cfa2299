// New tensors. On the CPU at the cost of their memory: what at::empty and at::clone do, without dispatch. A
// decoding step makes hundreds of small ones.
#pragma once

#include <ATen/core/Tensor.h>

namespace grille::tensors {

// Contiguous, uninitialised.
at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device = at::kCPU);

// A copy of a contiguous tensor.
at::Tensor copy(const at::Tensor& tensor);

}  // namespace grille::tensors
