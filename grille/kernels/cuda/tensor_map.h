#pragma once

#include <cuda.h>

#include <cstdint>

namespace grille::kernels {

// A row-major matrix of bytes, [rows, row_bytes] with rows `stride_bytes` apart, as the copy engine sees it:
// boxes of `box_rows` rows and `box_bytes` (128 or 64) bytes, stored with the swizzle of that width; what
// lies outside the matrix reads as zero and is not written. `data` and `stride_bytes` must be multiples of
// 16, box_rows at most 256. Throws Error{kDevice}.
CUtensorMap make_row_map(const void* data, std::int64_t rows, std::int64_t row_bytes,
                         std::int64_t stride_bytes, int box_rows, int box_bytes = 128);

}  // namespace grille::kernels
