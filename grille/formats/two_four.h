// 2:4 sparsity: in every group of 4 consecutive columns of a row at most 2 weights are not zero.
//
// A [rows, cols] weight with cols % 4 == 0 is stored as its kept values, two a group in column order,
// and their positions, which take 4 bits a group in either of two forms:
//   metadata  two ascending 2-bit column indices, the first in the low bits (what GPUs read)
//   bitmask   bit j set: column j of the group is kept; exactly two bits (what files and CPUs read)
// A missing value (fewer than two non-zeros) is a stored +0 at the lowest free column.
#pragma once

#include <array>
#include <cstdint>

#include "grille/base/dtype.h"
#include "grille/base/matrix_view.h"

namespace grille::formats {

// Canonical form.
struct TwoFourView {
  const void* values = nullptr;            // [rows, cols / 2]
  const std::uint8_t* metadata = nullptr;  // [rows, ceil(cols / 8)], first group in the low nibble
  DType dtype = DType::kBFloat16;
  std::int64_t rows = 0;
  std::int64_t cols = 0;  // columns of the dense weight

  std::int64_t value_cols() const { return cols / 2; }
  std::int64_t metadata_cols() const { return (cols + 7) / 8; }
};

// The bitmask form with padded rows: what CPU kernels read, and, with no padding, what compressed-tensors'
// `sparse-24-bitmask` stores. Bit k of byte b (least significant first) is column 8 b + k.
// In padding, values are zero; mask bits are 0b0011 a group, so that a row holds mask_stride * 4 values.
struct TwoFourBitmaskView {
  const void* values = nullptr;        // [rows, value_stride]
  const std::uint8_t* mask = nullptr;  // [rows, mask_stride]
  DType dtype = DType::kBFloat16;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t value_stride = 0;  // in elements
  std::int64_t mask_stride = 0;   // in bytes
};

// Nibble of an absent last group of a metadata row: columns 0 and 1.
constexpr std::uint8_t kFirstTwoMetadata = 0b0100;
constexpr std::uint8_t kFirstTwoBitmask = 0b0011;

// metadata nibble -> bitmask nibble. A nibble that is not two ascending indices gives 0.
std::uint8_t bitmask_from_metadata(std::uint8_t nibble);

// bitmask nibble -> metadata nibble. A nibble without exactly two bits gives 0.
std::uint8_t metadata_from_bitmask(std::uint8_t nibble);

// The two columns that a group keeps, given which of its four weights are not zero (bit j: column j).
// Up to two non-zeros: their columns, filled up with the lowest free ones, as a bitmask nibble.
// Three or more: 0.
std::uint8_t kept_columns(std::uint8_t nonzero);

// A bitmask row of `cols` columns -> metadata row, and back. Both write ceil(cols / 8) bytes; the absent
// last group of a row with cols % 8 == 4 becomes "columns 0 and 1" as metadata and 0 as bitmask.
// Return the first group that does not keep exactly two columns, or -1.
std::int64_t metadata_row_from_bitmask(const std::uint8_t* bitmask, std::int64_t cols,
                                       std::uint8_t* metadata);
std::int64_t bitmask_row_from_metadata(const std::uint8_t* metadata, std::int64_t cols,
                                       std::uint8_t* bitmask);

}  // namespace grille::formats
