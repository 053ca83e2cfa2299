// Single values of any kernel dtype: for references and tests, which need not be fast.
#pragma once

#include <cstdint>

#include "grille/base/dtype.h"

namespace grille::kernels {

// Value `index` of an array of float32, bfloat16, float16 or float8_e4m3, exact.
float reference_value(DType dtype, const void* data, std::int64_t index);

// Rounds to nearest even; float8_e4m3 saturates. Same dtypes; throws Error{kUnsupported} for others.
void set_reference_value(DType dtype, void* data, std::int64_t index, float value);

}  // namespace grille::kernels
