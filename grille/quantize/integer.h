// Integer weights: values of 8 or 4 bits with a scale for each row or for groups of columns.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "grille/tensors/weight.h"

namespace grille::quantize {

// Rounds a float32, bfloat16 or float16 weight, dense or 2:4, to the nearest integers from -2^(bits - 1) to
// 2^(bits - 1) - 1, half to even. A scale is the largest magnitude of its row (group 0) or group of `group`
// columns, divided by (2^bits - 1) / 2 and rounded to `scale_dtype` first, as compressed-tensors' symmetric
// min-max scheme; for zeros alone it is the dtype's epsilon. Zeros stay, so a 2:4 weight stays 2:4. Throws
// Error{kInvalidArgument} where `group` does not divide the columns, Error{kCorruptData} for a scale that
// scale_dtype cannot hold. `name` begins messages.
tensors::Weight quantize_integer(const tensors::Weight& weight, int bits, std::int64_t group,
                                 at::ScalarType scale_dtype, const std::string& name);

}  // namespace grille::quantize
