// TwoFourSm90: a 2:4 weight in the order in which Hopper's sparse tensor cores (wgmma.sp) consume it.
//
// The weight is padded to row blocks of 128 rows and k-tiles of 128 bytes of x (64 columns of a 16-bit type,
// 128 of an 8-bit type). One (row block, k-tile) is a slab, contiguous in memory; slabs are ordered
// [row_block][k_tile], so that one bulk copy fetches one or several neighbouring k-tiles. A slab holds
//   values    [128 rows][64 bytes]: the kept values of a row in column order, in the 64-byte swizzle of a
//             K-major shared-memory operand (rows 64 to 127 are the second m64 block, 4096 bytes on)
//   metadata  [2 m64 blocks][128 threads][1 or 2 words]: the register that a thread of the warpgroup passes;
//             16-bit types: one word, which feeds both k-steps (sparsity selector 0, then 1);
//             8-bit types: one word a k-step
// Padding is zero values with the legal metadata "columns 0 and 1". The packing does not depend on tile sizes
// or token counts. The mapping of metadata to registers is the one in the PTX ISA, "Sparse matrix storage"
// under wgmma.mma_async.sp; the tests of the kernels check it on all six patterns.
#pragma once

#include <cstdint>

#include "grille/base/dtype.h"
#include "grille/formats/two_four.h"

namespace grille::formats {

// To be raised whenever the bytes of a packed weight change.
constexpr int kTwoFourSm90Version = 1;

constexpr std::int64_t kSm90BlockRows = 128;
constexpr std::int64_t kSm90TileBytes = 128;  // of a row of x
constexpr std::int64_t kSm90SlabValueBytes = 8192;
constexpr std::int64_t kSm90Alignment = 16;  // of the packed weight in memory: what bulk copies want

// Sizes and index arithmetic of a packed [rows, cols] weight of `element_bytes` 1 or 2. All of it can run on
// a device.
struct TwoFourSm90Layout {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  int element_bytes = 2;

  constexpr std::int64_t tile_cols() const { return kSm90TileBytes / element_bytes; }
  constexpr std::int64_t row_blocks() const { return (rows + kSm90BlockRows - 1) / kSm90BlockRows; }
  constexpr std::int64_t k_tiles() const { return (cols + tile_cols() - 1) / tile_cols(); }
  constexpr int metadata_words() const { return element_bytes == 1 ? 2 : 1; }  // of a thread and m64 block
  constexpr std::int64_t slab_bytes() const { return kSm90SlabValueBytes + 1024 * metadata_words(); }
  constexpr std::int64_t bytes() const { return row_blocks() * k_tiles() * slab_bytes(); }
  constexpr std::int64_t slab_offset(std::int64_t row_block, std::int64_t k_tile) const {
    return (row_block * k_tiles() + k_tile) * slab_bytes();
  }
};

// Byte in a slab of the packed value `value` (0 to 64 / element_bytes - 1) of row `row` (0 to 127).
constexpr int sm90_value_offset(int element_bytes, int row, int value) {
  return row * 64 + ((value * element_bytes) ^ (((row >> 1) & 3) << 4));
}

// Where the 4 metadata bits of a group are.
struct Sm90MetadataPlace {
  int word = 0;  // 32-bit word of the slab's metadata
  int bit = 0;   // lowest bit
};

// Of group `group` (0 to tile_cols / 4 - 1) of row `row` (0 to 127).
constexpr Sm90MetadataPlace sm90_metadata_place(int element_bytes, int row, int group) {
  const int block = row / 64;
  const int warp_and_quad = (row % 64) / 16 * 32 + row % 8 * 4;
  const int half = row % 16 / 8;
  if (element_bytes == 1) {
    const int step = group / 16;
    const int thread = warp_and_quad + half + 2 * (group % 16 / 8);
    return {(block * 128 + thread) * 2 + step, 4 * (group % 8)};
  }
  const int selector = group / 8;
  const int thread = warp_and_quad + group % 8 / 4 + 2 * selector;
  return {block * 128 + thread, 16 * half + 4 * (group % 4)};
}

// A packed weight in memory.
struct TwoFourSm90View {
  const void* slabs = nullptr;     // layout().bytes() bytes, aligned to kSm90Alignment
  DType dtype = DType::kBFloat16;  // bfloat16, float16, float8_e4m3fn or int8
  std::int64_t rows = 0;           // of the weight, without padding
  std::int64_t cols = 0;

  TwoFourSm90Layout layout() const { return {rows, cols, static_cast<int>(dtype_size(dtype))}; }
};

// Whether there is such a packing for the dtype.
bool is_sm90_dtype(DType dtype);

// Whether an element, given as bits, is a NaN or an infinity of `dtype` (one of the above).
constexpr bool is_sm90_not_finite(DType dtype, std::uint32_t bits) {
  switch (dtype) {
    case DType::kBFloat16: return (bits & 0x7f80u) == 0x7f80u;
    case DType::kFloat16: return (bits & 0x7c00u) == 0x7c00u;
    case DType::kFloat8E4M3: return (bits & 0x7fu) == 0x7fu;
    default: return false;
  }
}

// The first group (lowest row, then group) that pack_sm90 or unpack_sm90 refuses.
struct Sm90Violation {
  std::int64_t row = -1;  // -1: none
  std::int64_t group = -1;
  std::uint32_t nibble = 0;  // the stored position nibble
  bool not_finite = false;   // the positions are fine, but a kept value is a NaN or an infinity

  bool found() const { return row >= 0; }
};

// Canonical or bitmask form -> slabs (layout().bytes() bytes). A stored -0.0 becomes +0. A nibble that does
// not name two columns, a NaN or an infinity is a violation, and what is packed then is unspecified.
// Throws Error{kInvalidArgument} for a dtype that has no such packing, cols % 4 != 0 or short strides.
// Single-threaded and slow: the definition. kernels::pack_24_sm90 is the fast way.
Sm90Violation pack_sm90(const TwoFourView& weight, void* slabs);
Sm90Violation pack_sm90(const TwoFourBitmaskView& weight, void* slabs);

// Slabs -> canonical form: `values` [rows, cols / 2] and `metadata` [rows, ceil(cols / 8)].
Sm90Violation unpack_sm90(const TwoFourSm90View& weight, void* values, std::uint8_t* metadata);

}  // namespace grille::formats
