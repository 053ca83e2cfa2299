// pack-quantized and marlin-24: what read_packed.cc and read_marlin_24.cc take in.
#include "grille/checkpoint/write_packed.h"

#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "grille/base/error.h"
#include "grille/formats/marlin_24.h"

namespace grille::checkpoint {
namespace {

using formats::kMarlin24Tile;
using tensors::Weight;

// `count` integers into words of zeros.
void pack(const std::int8_t* values, std::int64_t count, int bits, std::uint32_t* words) {
  const int in_word = 32 / bits;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto shifted = static_cast<std::uint32_t>(static_cast<int>(values[i]) + (1 << (bits - 1)));
    words[i / in_word] |= shifted << (i % in_word * bits);
  }
}

std::uint16_t metadata_of(const formats::TwoFourBitmaskView& view, std::int64_t row, std::int64_t col) {
  unsigned four = 0;
  for (int group = 0; group < 4; ++group) {
    const std::uint8_t byte = view.mask[row * view.mask_stride + col * 2 + group / 2];
    const auto nibble = static_cast<std::uint8_t>((byte >> (group % 2 * 4)) & 0xf);
    four |= static_cast<unsigned>(formats::metadata_from_bitmask(nibble)) << (4 * group);
  }
  return static_cast<std::uint16_t>(four);
}

void write_marlin_scales(SafetensorsWriter& writer, const std::string& module, const Weight& weight) {
  const bool grouped = weight.scale.dim() == 2;
  const std::int64_t groups = grouped ? weight.scale.size(1) : 1;
  const at::Tensor half = weight.scale.to(at::kHalf).reshape({weight.rows, groups}).contiguous();
  const bool permuted = grouped && weight.cols / 2 > weight.block_cols;
  at::Tensor stored = at::empty({groups, weight.rows}, at::kHalf);
  for (std::int64_t row = 0; row < weight.rows; ++row) {
    const std::int64_t column = permuted ? formats::marlin_24_scale_column(row) : row;
    for (std::int64_t group = 0; group < groups; ++group) {
      const at::Half value = half.const_data_ptr<at::Half>()[row * groups + group];
      check(static_cast<float>(value) > 0 && static_cast<float>(value) <= 65504.0f,
            ErrorCode::kInvalidArgument,
            "{}: the scale of row {} cannot be stored as float16, which marlin-24 needs", module, row);
      stored.mutable_data_ptr<at::Half>()[group * weight.rows + column] = value;
    }
  }
  writer.write(module + ".scale_packed",
               {static_cast<const std::byte*>(stored.const_data_ptr()), stored.nbytes()});
}

}  // namespace

void write_packed_rows(SafetensorsWriter& writer, const std::string& module, std::int64_t begin,
                       const at::Tensor& values, int bits) {
  const std::int64_t rows = values.size(0);
  const std::int64_t words = (values.size(1) * bits + 31) / 32;
  std::vector<std::uint32_t> packed(static_cast<std::size_t>(rows * words));
  const auto* data = values.const_data_ptr<std::int8_t>();
  for (std::int64_t row = 0; row < rows; ++row)
    pack(data + row * values.size(1), values.size(1), bits, packed.data() + row * words);
  writer.write_rows(module + ".weight_packed", begin, begin + rows, std::as_bytes(std::span(packed)));
}

at::Tensor packed_zero_points(const at::Tensor& points, int bits) {
  const at::Tensor columns = points.t().contiguous();  // [groups, rows]
  at::Tensor packed = at::zeros({columns.size(0), (columns.size(1) * bits + 31) / 32}, at::kInt);
  for (std::int64_t group = 0; group < columns.size(0); ++group) {
    pack(columns.const_data_ptr<std::int8_t>() + group * columns.size(1), columns.size(1), bits,
         reinterpret_cast<std::uint32_t*>(packed.mutable_data_ptr<std::int32_t>()) + group * packed.size(1));
  }
  return packed.t().contiguous();
}

void write_marlin_24(SafetensorsWriter& writer, const std::string& module, const Weight& weight) {
  const formats::TwoFourBitmaskView view = tensors::two_four_view(weight);
  const auto* values = static_cast<const std::int8_t*>(view.values);
  const formats::Marlin24Order& order = formats::marlin_24_order(weight.bits);
  const auto chunk = static_cast<std::int64_t>(order.size());
  const std::int64_t count = weight.rows * kMarlin24Tile;
  std::vector<std::int8_t> tile(static_cast<std::size_t>(count));
  for (std::int64_t index = 0; index < weight.cols / 2 / kMarlin24Tile; ++index) {
    for (std::int64_t i = 0; i < count; ++i) {
      const int place = order[static_cast<std::size_t>(i % chunk)];
      const std::int64_t row = i / chunk * formats::kMarlin24RowMultiple + place / 256 * 16 + place % 16;
      tile[static_cast<std::size_t>(i)] =
          values[row * view.value_stride + index * kMarlin24Tile + place % 256 / 16];
    }
    std::vector<std::uint32_t> words(static_cast<std::size_t>(count * weight.bits / 32));
    pack(tile.data(), count, weight.bits, words.data());
    writer.write_rows(module + ".weight_packed", index, index + 1, std::as_bytes(std::span(words)));
  }
  std::vector<std::uint16_t> meta(static_cast<std::size_t>(weight.rows * weight.cols / 16));
  for (std::int64_t row = 0; row < weight.rows; ++row) {
    for (std::int64_t col = 0; col < weight.cols / 16; ++col) {
      meta[static_cast<std::size_t>(formats::marlin_24_metadata_place(weight.rows, row, col))] =
          metadata_of(view, row, col);
    }
  }
  writer.write(module + ".meta", std::as_bytes(std::span(meta)));
  write_marlin_scales(writer, module, weight);
}

}  // namespace grille::checkpoint
