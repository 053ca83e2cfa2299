#pragma once

#include "grille/kernels/pack_24.h"
#include "grille/kernels/pack_24_sm90.h"

namespace grille::kernels {

// Either form of the weight.
struct Sm90Source {
  const void* values = nullptr;
  const std::uint8_t* positions = nullptr;
  DType dtype = DType::kBFloat16;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t value_stride = 0;     // in elements
  std::int64_t position_stride = 0;  // in bytes
  TwoFourPositions form = TwoFourPositions::kMetadata;
};

Sm90Source sm90_source(const Pack24Sm90Args& args);

// pack_24_sm90 on a CUDA stream; the arguments have been checked. In a build without CUDA it throws
// Error{kUnsupported}.
void pack_24_sm90_cuda(const Pack24Sm90Args& args);

}  // namespace grille::kernels
