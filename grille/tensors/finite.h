// Looking for NaN and infinity in raw arrays.
#pragma once

#include <cstdint>

#include "grille/base/dtype.h"

namespace grille::tensors {

// Index of the first NaN or infinity among `count` elements, or -1. Any floating dtype; integers are always
// finite. One pass, on the calling thread.
std::int64_t first_not_finite(const void* data, DType dtype, std::int64_t count);

}  // namespace grille::tensors
