#include "grille/formats/two_four.h"

#include <bit>

namespace grille::formats {
namespace {

constexpr std::array<std::uint8_t, 16> make_bitmask_table() {
  std::array<std::uint8_t, 16> table{};
  for (unsigned low = 0; low < 4; ++low) {
    for (unsigned high = low + 1; high < 4; ++high) {
      table[low | (high << 2)] = static_cast<std::uint8_t>((1u << low) | (1u << high));
    }
  }
  return table;
}

constexpr std::array<std::uint8_t, 16> make_metadata_table() {
  std::array<std::uint8_t, 16> table{};
  for (unsigned low = 0; low < 4; ++low) {
    for (unsigned high = low + 1; high < 4; ++high) {
      table[(1u << low) | (1u << high)] = static_cast<std::uint8_t>(low | (high << 2));
    }
  }
  return table;
}

constexpr std::array<std::uint8_t, 16> make_kept_table() {
  std::array<std::uint8_t, 16> table{};
  for (unsigned nonzero = 0; nonzero < 16; ++nonzero) {
    unsigned kept = nonzero;
    for (unsigned column = 0; column < 4 && std::popcount(kept) < 2; ++column) kept |= 1u << column;
    table[nonzero] = std::popcount(kept) == 2 ? static_cast<std::uint8_t>(kept) : std::uint8_t{0};
  }
  return table;
}

constexpr auto kBitmaskFromMetadata = make_bitmask_table();
constexpr auto kMetadataFromBitmask = make_metadata_table();
constexpr auto kKeptColumns = make_kept_table();

// Maps every nibble of a row through `table`; `absent` stands for the group past the last column.
std::int64_t map_row(const std::uint8_t* in, std::int64_t cols, std::uint8_t* out,
                     const std::array<std::uint8_t, 16>& table, std::uint8_t absent) {
  const std::int64_t groups = cols / 4;
  std::int64_t first_bad = -1;
  for (std::int64_t group = 0; group < groups; group += 2) {
    const std::uint8_t byte = in[group / 2];
    const std::uint8_t low = table[byte & 0xf];
    const bool has_high = group + 1 < groups;
    const std::uint8_t high = has_high ? table[byte >> 4] : absent;
    if (first_bad < 0 && low == 0) first_bad = group;
    if (first_bad < 0 && has_high && high == 0) first_bad = group + 1;
    out[group / 2] = static_cast<std::uint8_t>(low | (high << 4));
  }
  return first_bad;
}

}  // namespace

std::uint8_t bitmask_from_metadata(std::uint8_t nibble) { return kBitmaskFromMetadata[nibble & 0xf]; }
std::uint8_t metadata_from_bitmask(std::uint8_t nibble) { return kMetadataFromBitmask[nibble & 0xf]; }
std::uint8_t kept_columns(std::uint8_t nonzero) { return kKeptColumns[nonzero & 0xf]; }

std::int64_t metadata_row_from_bitmask(const std::uint8_t* bitmask, std::int64_t cols,
                                       std::uint8_t* metadata) {
  return map_row(bitmask, cols, metadata, kMetadataFromBitmask, kFirstTwoMetadata);
}

std::int64_t bitmask_row_from_metadata(const std::uint8_t* metadata, std::int64_t cols,
                                       std::uint8_t* bitmask) {
  return map_row(metadata, cols, bitmask, kBitmaskFromMetadata, 0);
}

}  // namespace grille::formats
