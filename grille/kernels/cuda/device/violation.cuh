// How blocks agree on the first violating group without waiting for each other: its index goes through an
// atomic minimum in the result's `row` field (all bits set before the kernel runs: none), and a kernel
// of one thread then spells out what was seen.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "grille/kernels/two_four_violation.h"

namespace grille::kernels {

inline cudaError_t clear_violation(TwoFourViolation* violation, cudaStream_t stream) {
  return cudaMemsetAsync(violation, 0xff, sizeof(TwoFourViolation), stream);
}

__device__ inline void report_violation(TwoFourViolation* violation, std::int64_t index) {
  atomicMin(reinterpret_cast<unsigned long long*>(&violation->row), static_cast<unsigned long long>(index));
}

// The index found, or -1; leaves row and group set and the rest zero.
__device__ inline std::int64_t take_violation(TwoFourViolation* violation, std::int64_t groups) {
  const std::int64_t index = violation->row;
  *violation = TwoFourViolation{};
  if (index < 0) return -1;
  violation->row = index / groups;
  violation->group = index % groups;
  return index;
}

}  // namespace grille::kernels
