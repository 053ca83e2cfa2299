// FP8 weights: e4m3 values with a scale per output row.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "grille/tensors/weight.h"

namespace grille::quantize {

struct Fp8Result {
  tensors::Weight weight;
  std::int64_t saturated = 0;  // weights that would have rounded beyond 448 times the stored scale
};

// Rounds a float32, bfloat16 or float16 weight, dense or 2:4, to FP8. The scale of a row is its largest
// magnitude / 448, rounded to `scale_dtype` first, so that the stored scale is the one that was used; a row
// of zeros has scale 1. A NaN or an infinity is an Error{kCorruptData} that names `name` and the row.
Fp8Result quantize_fp8(const tensors::Weight& weight, at::ScalarType scale_dtype, const std::string& name);

}  // namespace grille::quantize
