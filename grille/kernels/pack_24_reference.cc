#include <cmath>
#include <cstring>

#include "grille/kernels/pack_24.h"
#include "grille/kernels/weight_bits.h"

namespace grille::kernels {
namespace {

std::uint32_t bits_at(const void* row, std::int64_t column, std::size_t size) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(row) + column * static_cast<std::int64_t>(size), size);
  return bits;
}

}  // namespace

void pack_24_reference(const Pack24Args& args) {
  const PackedTwoFour& packed = args.packed;
  const bool metadata = packed.form == TwoFourPositions::kMetadata;
  const std::size_t size = dtype_size(args.dense.dtype);
  const WeightBits kind = weight_bits(args.dense.dtype);
  *args.violation = {};
  for (std::int64_t i = 0; i < args.dense.rows; ++i) {
    const std::byte* in = args.dense.row(i);
    std::byte* values =
        static_cast<std::byte*>(packed.values) + i * packed.value_stride * static_cast<std::int64_t>(size);
    std::uint8_t* positions = packed.positions + i * packed.position_stride;
    std::memset(values, 0, static_cast<std::size_t>(packed.value_stride) * size);
    std::memset(positions, 0, static_cast<std::size_t>(packed.position_stride));
    for (std::int64_t group = 0; group < 2 * packed.position_stride; ++group) {
      int columns[2] = {0, 1};
      bool has_values = 2 * group + 2 <= packed.value_stride;
      if (group < args.dense.cols / 4) {
        int nonzeros = 0;
        bool finite = true;
        bool keep[4] = {};
        TwoFourViolation seen{i, group};
        for (int j = 0; j < 4; ++j) {
          seen.values[j] = weight_value(kind, bits_at(in, 4 * group + j, size));
          finite = finite && std::isfinite(seen.values[j]);
          keep[j] = seen.values[j] != 0;
          if (keep[j]) ++nonzeros;
          if (keep[j]) seen.nibble |= 1u << j;
        }
        if (!finite || nonzeros > 2) {
          if (!args.violation->found()) *args.violation = seen;
          continue;
        }
        for (int j = 0; j < 4 && nonzeros < 2; ++j) {
          if (keep[j]) continue;
          keep[j] = true;
          ++nonzeros;
        }
        for (int j = 0, next = 0; j < 4; ++j) {
          if (keep[j]) columns[next++] = j;
        }
        for (int next = 0; next < 2; ++next) {
          if (seen.values[columns[next]] == 0) continue;  // a stored zero is +0
          std::memcpy(values + static_cast<std::size_t>(2 * group + next) * size,
                      in + static_cast<std::size_t>(4 * group + columns[next]) * size, size);
        }
      }
      const int bitmask = has_values ? (1 << columns[0]) | (1 << columns[1]) : 0;
      const int nibble = metadata ? columns[0] | (columns[1] << 2) : bitmask;
      positions[group / 2] = static_cast<std::uint8_t>(positions[group / 2] | (nibble << (4 * (group % 2))));
    }
  }
}

}  // namespace grille::kernels
