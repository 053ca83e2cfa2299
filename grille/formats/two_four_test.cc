#include "grille/formats/two_four.h"

#include <bit>
#include <vector>

#include <gtest/gtest.h>

namespace grille::formats {
namespace {

TEST(TwoFour, MetadataAndBitmaskNameTheSameColumns) {
  int pairs = 0;
  for (unsigned low = 0; low < 4; ++low) {
    for (unsigned high = low + 1; high < 4; ++high, ++pairs) {
      const auto metadata = static_cast<std::uint8_t>(low | (high << 2));
      const auto bitmask = static_cast<std::uint8_t>((1u << low) | (1u << high));
      EXPECT_EQ(bitmask_from_metadata(metadata), bitmask);
      EXPECT_EQ(metadata_from_bitmask(bitmask), metadata);
      EXPECT_NE(metadata, 0) << "0 stands for an error";
    }
  }
  EXPECT_EQ(pairs, 6);
  EXPECT_EQ(bitmask_from_metadata(kFirstTwoMetadata), kFirstTwoBitmask);
}

TEST(TwoFour, OtherNibblesAreRefused) {
  int valid_metadata = 0;
  int valid_bitmasks = 0;
  for (std::uint8_t nibble = 0; nibble < 16; ++nibble) {
    valid_metadata += bitmask_from_metadata(nibble) != 0;
    valid_bitmasks += metadata_from_bitmask(nibble) != 0;
    EXPECT_EQ(metadata_from_bitmask(nibble) != 0, std::popcount(nibble) == 2);
  }
  EXPECT_EQ(valid_metadata, 6);
  EXPECT_EQ(valid_bitmasks, 6);
}

TEST(TwoFour, KeptColumnsHoldTheNonZerosAndTheLowestFreeOnes) {
  for (std::uint8_t nonzero = 0; nonzero < 16; ++nonzero) {
    const std::uint8_t kept = kept_columns(nonzero);
    if (std::popcount(nonzero) > 2) {
      EXPECT_EQ(kept, 0);
      continue;
    }
    EXPECT_EQ(std::popcount(kept), 2);
    EXPECT_EQ(kept & nonzero, nonzero);
    const unsigned filled = kept & ~nonzero;
    // No free column below a filled one was left out.
    for (unsigned j = 0; j < 4; ++j) {
      const bool is_free = ((nonzero >> j) & 1u) == 0;
      if (is_free && ((filled >> j) & 1u) == 0) {
        EXPECT_EQ(filled >> j, 0u) << int{nonzero};
      }
    }
  }
  EXPECT_EQ(kept_columns(0), 0b0011);
  EXPECT_EQ(kept_columns(0b1000), 0b1001);
  EXPECT_EQ(kept_columns(0b0001), 0b0011);
}

TEST(TwoFour, RowsConvertBothWaysWithAnAbsentLastGroup) {
  const std::vector<std::uint8_t> bitmask = {0x53, 0x69, 0x0c};  // 20 columns: five groups
  std::vector<std::uint8_t> metadata(3);
  EXPECT_EQ(metadata_row_from_bitmask(bitmask.data(), 20, metadata.data()), -1);
  EXPECT_EQ(metadata, (std::vector<std::uint8_t>{0x84, 0x9c, 0x4e}));
  std::vector<std::uint8_t> back(3);
  EXPECT_EQ(bitmask_row_from_metadata(metadata.data(), 20, back.data()), -1);
  EXPECT_EQ(back, bitmask);
}

TEST(TwoFour, RowsReportTheFirstBadGroup) {
  std::vector<std::uint8_t> out(3);
  const std::vector<std::uint8_t> three_bits = {0x33, 0x73, 0x01};
  EXPECT_EQ(metadata_row_from_bitmask(three_bits.data(), 20, out.data()), 3);
  const std::vector<std::uint8_t> last = {0x33, 0x33, 0x01};
  EXPECT_EQ(metadata_row_from_bitmask(last.data(), 20, out.data()), 4);
  const std::vector<std::uint8_t> descending = {0x41, 0x44, 0x44};
  EXPECT_EQ(bitmask_row_from_metadata(descending.data(), 20, out.data()), 0);
}

TEST(TwoFour, ViewsKnowTheirStoredSize) {
  const TwoFourView view{.rows = 3, .cols = 20};
  EXPECT_EQ(view.value_cols(), 10);
  EXPECT_EQ(view.metadata_cols(), 3);
}

}  // namespace
}  // namespace grille::formats
