#include "grille/kernels/cpu/pack_24.h"

#include <algorithm>

#include "grille/base/parallel.h"
#include "grille/kernels/cpu/first_group.h"
#include "grille/kernels/two_four_group.h"
#include "grille/kernels/weight_bits.h"

namespace grille::kernels {
namespace {

constexpr std::int64_t kGrainWeights = 1 << 16;  // a thread's least work: tens of microseconds

template <typename T>
struct RowPacker {
  WeightBits kind;
  TwoFourTables tables;
  TwoFourPositions form;
  std::int64_t cols;
  std::int64_t value_stride;
  std::int64_t position_stride;

  std::uint32_t group(const T* in, T* values) const {
    const T group[4] = {in[0], in[1], in[2], in[3]};
    T first = 0;
    T second = 0;
    const std::uint32_t nibble = pack_group(group, kind, tables, first, second);
    values[0] = first;
    values[1] = second;
    return nibble;
  }

  std::uint32_t padding(std::int64_t group) const { return padding_nibble(form, group, value_stride); }

  // Returns whether every group could be packed.
  bool row(const T* in, T* values, std::uint8_t* positions) const {
    const std::int64_t groups = cols / 4;
    bool good = true;
    for (std::int64_t pair = 0; pair < groups / 2; ++pair) {
      const std::uint32_t low = group(in + 8 * pair, values + 4 * pair);
      const std::uint32_t high = group(in + 8 * pair + 4, values + 4 * pair + 2);
      positions[pair] = static_cast<std::uint8_t>(low | (high << 4));
      good = good && low != 0 && high != 0;
    }
    std::int64_t byte = groups / 2;
    if (groups % 2 != 0) {
      const std::uint32_t low = group(in + cols - 4, values + cols / 2 - 2);
      positions[byte++] = static_cast<std::uint8_t>(low | (padding(groups) << 4));
      good = good && low != 0;
    }
    for (; byte < position_stride; ++byte) {
      positions[byte] = static_cast<std::uint8_t>(padding(2 * byte) | (padding(2 * byte + 1) << 4));
    }
    std::fill(values + cols / 2, values + value_stride, T{0});
    return good;
  }

  // The first group of a row that row() refused.
  std::int64_t first_violation(const std::uint8_t* positions) const {
    std::int64_t group = 0;
    while (((positions[group / 2] >> (4 * (group % 2))) & 0xf) != 0) ++group;
    return group;
  }
};

template <typename T>
void pack_rows(const Pack24Args& args) {
  const ConstMatrixView& dense = args.dense;
  const PackedTwoFour& packed = args.packed;
  const RowPacker<T> packer{weight_bits(dense.dtype), two_four_tables(packed.form), packed.form, dense.cols,
                            packed.value_stride,      packed.position_stride};
  const std::int64_t groups = dense.cols / 4;
  FirstGroup first;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainWeights / std::max<std::int64_t>(dense.cols, 1));
  parallel_for(dense.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* values = static_cast<T*>(packed.values) + i * packed.value_stride;
      std::uint8_t* positions = packed.positions + i * packed.position_stride;
      if (packer.row(reinterpret_cast<const T*>(dense.row(i)), values, positions)) continue;
      first.add(i * groups + packer.first_violation(positions));
      return;  // rows below cannot be earlier
    }
  });
  *args.violation = {};
  if (!first.found()) return;
  TwoFourViolation& violation = *args.violation;
  violation.row = first.index() / groups;
  violation.group = first.index() % groups;
  const T* in = reinterpret_cast<const T*>(dense.row(violation.row)) + 4 * violation.group;
  const T group[4] = {in[0], in[1], in[2], in[3]};
  violation.nibble = nonzero_nibble(group, packer.kind);
  for (int j = 0; j < 4; ++j) violation.values[j] = weight_value(packer.kind, group[j]);
}

}  // namespace

void pack_24_cpu(const Pack24Args& args) {
  with_bits_of(args.dense.dtype, [&](auto bits) { pack_rows<decltype(bits)>(args); });
}

}  // namespace grille::kernels
