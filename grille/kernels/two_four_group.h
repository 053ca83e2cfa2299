// One group of four weights, packed and unpacked: the arithmetic that CPU and CUDA kernels share.
#pragma once

#include <cstdint>

#include "grille/formats/two_four.h"
#include "grille/kernels/pack_24.h"
#include "grille/kernels/weight_bits.h"

namespace grille::kernels {

// A map of nibbles to nibbles in one register: entry i is bits 4 i to 4 i + 3.
using NibbleTable = std::uint64_t;

constexpr std::uint32_t look_up(NibbleTable table, std::uint32_t nibble) {
  return static_cast<std::uint32_t>(table >> (4u * nibble)) & 0xfu;
}

struct TwoFourTables {
  NibbleTable kept = 0;      // which weights are not zero -> bitmask of the kept columns, or 0
  NibbleTable metadata = 0;  // bitmask -> metadata, or 0
  NibbleTable stored = 0;    // bitmask -> what is stored
  NibbleTable bitmask = 0;   // what is stored -> bitmask, or 0
};

// From the functions of formats/two_four.h, the one place that defines these maps.
TwoFourTables two_four_tables(TwoFourPositions form);

// The stored nibble of a group past the last column.
constexpr std::uint32_t padding_nibble(TwoFourPositions form, std::int64_t group, std::int64_t value_stride) {
  if (form == TwoFourPositions::kMetadata) return formats::kFirstTwoMetadata;
  return 2 * group + 2 <= value_stride ? formats::kFirstTwoBitmask : 0u;
}

// Bit j: weight j is not zero.
template <typename T>
constexpr std::uint32_t nonzero_nibble(const T (&in)[4], const WeightBits& kind) {
  std::uint32_t nibble = 0;
  for (std::uint32_t j = 0; j < 4; ++j)
    nibble |= static_cast<std::uint32_t>((in[j] & kind.magnitude_mask) != 0) << j;
  return nibble;
}

// Writes the two kept weights. Returns the stored position nibble, or 0 for a violation.
template <typename T>
constexpr std::uint32_t pack_group(const T (&in)[4], const WeightBits& kind, const TwoFourTables& tables,
                                   T& first, T& second) {
  bool finite = true;
  for (int j = 0; j < 4; ++j) finite = finite && (in[j] & kind.magnitude_mask) < kind.first_not_finite;
  const std::uint32_t kept = finite ? look_up(tables.kept, nonzero_nibble(in, kind)) : 0u;
  const std::uint32_t columns = look_up(tables.metadata, kept);
  const std::uint32_t low = columns & 3u;
  const std::uint32_t high = columns >> 2;
  first = low == 0 ? in[0] : low == 1 ? in[1] : in[2];
  second = high == 3 ? in[3] : high == 2 ? in[2] : in[1];
  if ((first & kind.magnitude_mask) == 0) first = 0;
  if ((second & kind.magnitude_mask) == 0) second = 0;
  return look_up(tables.stored, kept);
}

// Writes the four weights. Returns false for a nibble that does not name two columns.
template <typename T>
constexpr bool unpack_group(std::uint32_t nibble, T first, T second, const TwoFourTables& tables,
                            T (&out)[4]) {
  const std::uint32_t kept = look_up(tables.bitmask, nibble);
  const T zero = 0;
  out[0] = (kept & 1u) ? first : zero;
  out[1] = (kept & 2u) ? ((kept & 1u) ? second : first) : zero;
  out[2] = (kept & 4u) ? ((kept & 3u) ? second : first) : zero;
  out[3] = (kept & 8u) ? second : zero;
  return kept != 0;
}

}  // namespace grille::kernels
