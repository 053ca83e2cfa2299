#include "grille/kernels/two_four_group.h"

namespace grille::kernels {
namespace {

template <typename Map>
NibbleTable make_table(Map map) {
  NibbleTable table = 0;
  for (std::uint32_t nibble = 0; nibble < 16; ++nibble) {
    table |= static_cast<NibbleTable>(map(static_cast<std::uint8_t>(nibble)) & 0xf) << (4u * nibble);
  }
  return table;
}

// Nibbles of exactly two bits; the others become 0.
std::uint8_t two_bits(std::uint8_t nibble) {
  return formats::metadata_from_bitmask(nibble) != 0 ? nibble : 0;
}

}  // namespace

TwoFourTables two_four_tables(TwoFourPositions form) {
  const bool metadata = form == TwoFourPositions::kMetadata;
  TwoFourTables tables;
  tables.kept = make_table(formats::kept_columns);
  tables.metadata = make_table(formats::metadata_from_bitmask);
  tables.stored = metadata ? tables.metadata : make_table(two_bits);
  tables.bitmask = make_table(metadata ? formats::bitmask_from_metadata : two_bits);
  return tables;
}

}  // namespace grille::kernels
