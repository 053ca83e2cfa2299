// marlin-24: 2:4 integers in a GPU kernel's order (grille/formats/marlin_24.h).
#include <cstring>

#include <ATen/ops/empty.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/checkpoint/linear_reader.h"
#include "grille/formats/marlin_24.h"

namespace grille::checkpoint {
namespace {

using formats::kMarlin24Tile;
using tensors::Weight;

constexpr std::int64_t kRowGrain = 16;

// Packed words of a row of tiles -> kept values [rows, kept], columns [first, first + 16).
void unpack_tiles(const std::uint32_t* words, int bits, std::int64_t rows, std::int64_t kept,
                  std::int64_t first, std::int8_t* values) {
  const formats::Marlin24Order& order = formats::marlin_24_order(bits);
  const int in_word = 32 / bits;
  const auto chunk = static_cast<std::int64_t>(order.size());
  for (std::int64_t i = 0; i < rows * kMarlin24Tile; ++i) {
    const unsigned value = (words[i / in_word] >> (i % in_word * bits)) & ((1u << bits) - 1);
    const int place = order[static_cast<std::size_t>(i % chunk)];
    const std::int64_t row = i / chunk * formats::kMarlin24RowMultiple + place / 256 * 16 + place % 16;
    values[row * kept + first + place % 256 / 16] =
        static_cast<std::int8_t>(static_cast<int>(value) - (1 << (bits - 1)));
  }
}

}  // namespace

Weight LinearReader::marlin_24(const QuantizationScheme& scheme) const {
  const std::string packed_name = module_ + ".weight_packed";
  if (rows_ % formats::kMarlin24RowMultiple != 0 || cols_ % formats::kMarlin24ColMultiple != 0) {
    fail(ErrorCode::kCorruptData, "{}: marlin-24 needs multiples of {} rows and {} columns, not [{}, {}]",
         source_.locate(packed_name), formats::kMarlin24RowMultiple, formats::kMarlin24ColMultiple, rows_,
         cols_);
  }
  const std::int64_t tiles = cols_ / 2 / kMarlin24Tile;
  const std::int64_t words = rows_ * kMarlin24Tile * scheme.bits / 32;
  check_is(packed_name, expect(packed_name, {tiles, words}), DType::kInt32);
  const std::string meta_name = module_ + ".meta";
  check_is(meta_name, expect(meta_name, {cols_ / 32, rows_ * 2}), DType::kInt16);

  const std::int64_t kept = cols_ / 2;
  std::vector<std::int8_t> values(static_cast<std::size_t>(rows_ * kept));
  parallel_for(tiles, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint32_t> row_words(static_cast<std::size_t>(words));
    for (std::int64_t tile = begin; tile < end; ++tile) {
      source_.read_rows(packed_name, tile, tile + 1, std::as_writable_bytes(std::span(row_words)));
      unpack_tiles(row_words.data(), scheme.bits, rows_, kept, tile * kMarlin24Tile, values.data());
    }
  });

  std::vector<std::uint16_t> meta(static_cast<std::size_t>(rows_ * cols_ / 16));
  source_.read(meta_name, std::as_writable_bytes(std::span(meta)));
  Weight weight = tensors::empty_two_four(rows_, cols_, DType::kInt8);
  parallel_for(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint8_t> metadata(static_cast<std::size_t>(cols_ / 8));
    std::vector<std::uint8_t> mask(metadata.size());
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t col = 0; col < cols_ / 16; ++col) {
        const std::uint16_t four =
            meta[static_cast<std::size_t>(formats::marlin_24_metadata_place(rows_, row, col))];
        std::memcpy(metadata.data() + col * 2, &four, 2);  // little-endian: groups in order
      }
      const std::int64_t bad = formats::bitmask_row_from_metadata(metadata.data(), cols_, mask.data());
      if (bad >= 0) {
        fail(ErrorCode::kCorruptData, "{}: row {}, group {} (columns {} to {}) is not two ascending columns",
             source_.locate(meta_name), row, bad, bad * 4, bad * 4 + 3);
      }
      tensors::set_two_four_row(weight, row, values.data() + row * kept, mask.data());
    }
  });

  const std::string scale_name = module_ + ".scale_packed";
  const bool grouped = scheme.strategy == QuantizationScheme::Strategy::kGroup;
  if (grouped && cols_ % scheme.block_cols != 0) {
    fail(ErrorCode::kCorruptData, "{}: groups of {} do not divide {} columns", source_.locate(scale_name),
         scheme.block_cols, cols_);
  }
  const std::int64_t groups = grouped ? cols_ / scheme.block_cols : 1;
  check_is(scale_name, expect(scale_name, {groups, rows_}), DType::kFloat16);
  const at::Tensor stored = source_.read_tensor(scale_name);
  const bool permuted = grouped && kept > scheme.block_cols;
  at::Tensor scale = at::empty({rows_, groups}, at::kHalf);
  for (std::int64_t row = 0; row < rows_; ++row) {
    const std::int64_t column = permuted ? formats::marlin_24_scale_column(row) : row;
    for (std::int64_t group = 0; group < groups; ++group) {
      scale.mutable_data_ptr<at::Half>()[row * groups + group] =
          stored.const_data_ptr<at::Half>()[group * rows_ + column];
    }
  }
  check_scales(".scale_packed", scale);
  weight.bits = scheme.bits;
  weight.scale = grouped ? scale : scale.reshape({rows_});
  if (grouped) weight.block_cols = scheme.block_cols;
  return weight;
}

}  // namespace grille::checkpoint
