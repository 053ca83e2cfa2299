#include <bit>
#include <cstring>

#include "grille/kernels/unpack_24.h"

namespace grille::kernels {

void unpack_24_reference(const Unpack24Args& args) {
  const ConstPackedTwoFour& packed = args.packed;
  const std::size_t size = dtype_size(args.dense.dtype);
  *args.violation = {};
  for (std::int64_t i = 0; i < args.dense.rows; ++i) {
    std::byte* out = args.dense.row(i);
    std::memset(out, 0, static_cast<std::size_t>(args.dense.cols) * size);
    for (std::int64_t group = 0; group < args.dense.cols / 4; ++group) {
      const std::uint8_t byte = packed.positions[i * packed.position_stride + group / 2];
      const unsigned nibble = group % 2 == 0 ? byte & 0xfu : byte >> 4;
      int columns[2] = {static_cast<int>(nibble & 3u), static_cast<int>(nibble >> 2)};
      bool good = columns[0] < columns[1];
      if (packed.form == TwoFourPositions::kBitmask) {
        good = std::popcount(nibble) == 2;
        columns[0] = std::countr_zero(nibble);
        columns[1] = std::bit_width(nibble) - 1;
      }
      if (!good) {
        if (!args.violation->found()) *args.violation = {i, group, nibble};
        continue;
      }
      const std::byte* values = static_cast<const std::byte*>(packed.values) +
                                (i * packed.value_stride + 2 * group) * static_cast<std::int64_t>(size);
      for (std::size_t j = 0; j < 2; ++j) {
        std::memcpy(out + static_cast<std::size_t>(4 * group + columns[j]) * size, values + j * size, size);
      }
    }
  }
}

}  // namespace grille::kernels
