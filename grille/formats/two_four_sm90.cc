#include "grille/formats/two_four_sm90.h"

#include <cstring>

#include "grille/base/error.h"

namespace grille::formats {
namespace {

// A row of the source: how to read its values and its positions as metadata nibbles.
struct SourceRow {
  const std::byte* values = nullptr;
  const std::uint8_t* positions = nullptr;
  bool bitmask = false;

  std::uint32_t stored_nibble(std::int64_t group) const {
    return (static_cast<std::uint32_t>(positions[group / 2]) >> (4 * (group % 2))) & 0xfu;
  }
  // The metadata nibble, or 0 for one that does not name two columns.
  std::uint32_t metadata(std::int64_t group) const {
    const auto nibble = static_cast<std::uint8_t>(stored_nibble(group));
    if (bitmask) return metadata_from_bitmask(nibble);
    return bitmask_from_metadata(nibble) != 0 ? nibble : 0u;
  }
};

std::uint32_t read_element(const std::byte* values, std::int64_t index, int size) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, values + index * size, static_cast<std::size_t>(size));
  return bits;
}

bool is_zero(DType dtype, std::uint32_t bits) {
  if (dtype == DType::kInt8) return bits == 0;
  return (bits & (dtype == DType::kFloat8E4M3 ? 0x7fu : 0x7fffu)) == 0;
}

void check_layout(DType dtype, std::int64_t rows, std::int64_t cols) {
  check(is_sm90_dtype(dtype), ErrorCode::kInvalidArgument,
        "two_four_sm90: expected bfloat16, float16, float8_e4m3fn or int8, got {}", dtype_name(dtype));
  check(rows >= 0 && cols >= 0 && cols % 4 == 0, ErrorCode::kInvalidArgument,
        "two_four_sm90: expected [rows, cols] with cols a multiple of 4, got [{}, {}]", rows, cols);
}

// Writes one row into the slabs of its row block. Every row of every slab is written, padding too.
void pack_row(const TwoFourSm90View& packed, std::int64_t row, const SourceRow& source, std::byte* slabs,
              Sm90Violation& violation) {
  const TwoFourSm90Layout layout = packed.layout();
  const int size = layout.element_bytes;
  const std::int64_t tile_groups = layout.tile_cols() / 4;
  const int row_in_block = static_cast<int>(row % kSm90BlockRows);
  for (std::int64_t group = 0; group < layout.k_tiles() * tile_groups; ++group) {
    std::byte* slab = slabs + layout.slab_offset(row / kSm90BlockRows, group / tile_groups);
    const int group_in_tile = static_cast<int>(group % tile_groups);
    std::uint32_t nibble = kFirstTwoMetadata;
    std::uint32_t elements[2] = {0, 0};
    if (row < packed.rows && 4 * group < packed.cols) {
      nibble = source.metadata(group);
      bool not_finite = false;
      for (int j = 0; j < 2; ++j) {
        elements[j] = read_element(source.values, 2 * group + j, size);
        not_finite = not_finite || is_sm90_not_finite(packed.dtype, elements[j]);
        if (is_zero(packed.dtype, elements[j])) elements[j] = 0;
      }
      if ((nibble == 0 || not_finite) && !violation.found())
        violation = {row, group, source.stored_nibble(group), nibble != 0};
    }
    for (int j = 0; j < 2; ++j) {
      std::memcpy(slab + sm90_value_offset(size, row_in_block, 2 * group_in_tile + j), &elements[j],
                  static_cast<std::size_t>(size));
    }
    const Sm90MetadataPlace place = sm90_metadata_place(size, row_in_block, group_in_tile);
    std::byte* target = slab + kSm90SlabValueBytes + 4 * place.word;
    std::uint32_t word = 0;
    std::memcpy(&word, target, 4);
    word = (word & ~(0xfu << place.bit)) | (nibble << place.bit);
    std::memcpy(target, &word, 4);
  }
}

template <typename RowAt>
Sm90Violation pack_rows(const TwoFourSm90View& packed, void* slabs, RowAt row_at) {
  Sm90Violation violation;
  const std::int64_t padded_rows = packed.layout().row_blocks() * kSm90BlockRows;
  for (std::int64_t row = 0; row < padded_rows; ++row) {
    const SourceRow source = row < packed.rows ? row_at(row) : SourceRow{};
    pack_row(packed, row, source, static_cast<std::byte*>(slabs), violation);
  }
  return violation;
}

}  // namespace

bool is_sm90_dtype(DType dtype) {
  return dtype == DType::kBFloat16 || dtype == DType::kFloat16 || dtype == DType::kFloat8E4M3 ||
         dtype == DType::kInt8;
}

Sm90Violation pack_sm90(const TwoFourView& weight, void* slabs) {
  check_layout(weight.dtype, weight.rows, weight.cols);
  const auto size = static_cast<std::int64_t>(dtype_size(weight.dtype));
  return pack_rows({slabs, weight.dtype, weight.rows, weight.cols}, slabs, [&](std::int64_t row) {
    return SourceRow{static_cast<const std::byte*>(weight.values) + row * weight.value_cols() * size,
                     weight.metadata + row * weight.metadata_cols(), false};
  });
}

Sm90Violation pack_sm90(const TwoFourBitmaskView& weight, void* slabs) {
  check_layout(weight.dtype, weight.rows, weight.cols);
  check(weight.rows == 0 ||
            (weight.value_stride >= weight.cols / 2 && weight.mask_stride >= (weight.cols + 7) / 8),
        ErrorCode::kInvalidArgument, "two_four_sm90: {} columns with value stride {} and mask stride {}",
        weight.cols, weight.value_stride, weight.mask_stride);
  const auto size = static_cast<std::int64_t>(dtype_size(weight.dtype));
  return pack_rows({slabs, weight.dtype, weight.rows, weight.cols}, slabs, [&](std::int64_t row) {
    return SourceRow{static_cast<const std::byte*>(weight.values) + row * weight.value_stride * size,
                     weight.mask + row * weight.mask_stride, true};
  });
}

Sm90Violation unpack_sm90(const TwoFourSm90View& weight, void* values, std::uint8_t* metadata) {
  check_layout(weight.dtype, weight.rows, weight.cols);
  const TwoFourSm90Layout layout = weight.layout();
  const int size = layout.element_bytes;
  const std::int64_t tile_groups = layout.tile_cols() / 4;
  const std::int64_t groups = weight.cols / 4;
  Sm90Violation violation;
  for (std::int64_t row = 0; row < weight.rows; ++row) {
    const int row_in_block = static_cast<int>(row % kSm90BlockRows);
    std::byte* row_values = static_cast<std::byte*>(values) + row * (weight.cols / 2) * size;
    std::uint8_t* row_metadata = metadata + row * ((weight.cols + 7) / 8);
    for (std::int64_t group = 0; group < (groups + 1) / 2 * 2; ++group) {
      std::uint32_t nibble = kFirstTwoMetadata;
      if (group < groups) {
        const std::byte* slab = static_cast<const std::byte*>(weight.slabs) +
                                layout.slab_offset(row / kSm90BlockRows, group / tile_groups);
        const int group_in_tile = static_cast<int>(group % tile_groups);
        for (int j = 0; j < 2; ++j) {
          std::memcpy(row_values + (2 * group + j) * size,
                      slab + sm90_value_offset(size, row_in_block, 2 * group_in_tile + j),
                      static_cast<std::size_t>(size));
        }
        const Sm90MetadataPlace place = sm90_metadata_place(size, row_in_block, group_in_tile);
        std::uint32_t word = 0;
        std::memcpy(&word, slab + kSm90SlabValueBytes + 4 * place.word, 4);
        nibble = (word >> place.bit) & 0xfu;
        if (bitmask_from_metadata(static_cast<std::uint8_t>(nibble)) == 0 && !violation.found())
          violation = {row, group, nibble, false};
      }
      const int shift = static_cast<int>(4 * (group % 2));
      const std::uint32_t kept = shift == 0 ? 0u : row_metadata[group / 2] & 0xfu;
      row_metadata[group / 2] = static_cast<std::uint8_t>(kept | (nibble << shift));
    }
  }
  return violation;
}

}  // namespace grille::formats
