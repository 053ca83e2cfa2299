#include "grille/kernels/cpu/unpack_24.h"

#include <algorithm>

#include "grille/base/parallel.h"
#include "grille/kernels/cpu/first_group.h"
#include "grille/kernels/two_four_group.h"
#include "grille/kernels/weight_bits.h"

namespace grille::kernels {
namespace {

constexpr std::int64_t kGrainWeights = 1 << 16;

// Returns the first group whose nibble names no two columns, or -1.
template <typename T>
std::int64_t unpack_row(const T* values, const std::uint8_t* positions, std::int64_t cols,
                        const TwoFourTables& tables, T* out) {
  std::int64_t first = -1;
  for (std::int64_t group = 0; group < cols / 4; ++group) {
    const std::uint32_t nibble = (positions[group / 2] >> (4 * (group % 2))) & 0xfu;
    T weights[4];
    const bool good = unpack_group(nibble, values[2 * group], values[2 * group + 1], tables, weights);
    std::copy(weights, weights + 4, out + 4 * group);
    if (!good && first < 0) first = group;
  }
  return first;
}

template <typename T>
void unpack_rows(const Unpack24Args& args) {
  const MatrixView& dense = args.dense;
  const ConstPackedTwoFour& packed = args.packed;
  const TwoFourTables tables = two_four_tables(packed.form);
  const std::int64_t groups = dense.cols / 4;
  FirstGroup first;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainWeights / std::max<std::int64_t>(dense.cols, 1));
  parallel_for(dense.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* values = static_cast<const T*>(packed.values) + i * packed.value_stride;
      const std::uint8_t* positions = packed.positions + i * packed.position_stride;
      const std::int64_t group =
          unpack_row(values, positions, dense.cols, tables, reinterpret_cast<T*>(dense.row(i)));
      if (group >= 0) first.add(i * groups + group);
    }
  });
  *args.violation = {};
  if (!first.found()) return;
  TwoFourViolation& violation = *args.violation;
  violation.row = first.index() / groups;
  violation.group = first.index() % groups;
  const std::uint8_t byte = packed.positions[violation.row * packed.position_stride + violation.group / 2];
  violation.nibble = (byte >> (4 * (violation.group % 2))) & 0xfu;
}

}  // namespace

void unpack_24_cpu(const Unpack24Args& args) {
  with_bits_of(args.dense.dtype, [&](auto bits) { unpack_rows<decltype(bits)>(args); });
}

}  // namespace grille::kernels
