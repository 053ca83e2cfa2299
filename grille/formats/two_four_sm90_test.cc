#include "grille/formats/two_four_sm90.h"

#include <cstring>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::formats {
namespace {

constexpr DType kDTypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3, DType::kInt8};
constexpr std::uint8_t kPatterns[] = {0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110};

// A random canonical weight of finite, non-zero values in all six patterns.
struct Canonical {
  Canonical(DType type, std::int64_t n, std::int64_t k, unsigned seed) : dtype(type), rows(n), cols(k) {
    std::mt19937 random(seed);
    const auto size = dtype_size(dtype);
    values.resize(static_cast<std::size_t>(rows * cols / 2) * size);
    for (auto& byte : values) byte = static_cast<std::uint8_t>(1 + random() % 100);  // finite in every dtype
    metadata.resize(static_cast<std::size_t>(rows * ((cols + 7) / 8)));
    for (auto& byte : metadata)
      byte = static_cast<std::uint8_t>(kPatterns[random() % 6] | (kPatterns[random() % 6] << 4));
    for (std::int64_t row = 0; cols % 8 != 0 && row < rows; ++row) {
      std::uint8_t& last = metadata[static_cast<std::size_t>((row + 1) * ((cols + 7) / 8) - 1)];
      last = static_cast<std::uint8_t>((last & 0xf) | (kFirstTwoMetadata << 4));
    }
  }
  TwoFourView view() const { return {values.data(), metadata.data(), dtype, rows, cols}; }
  std::size_t packed_bytes() const {
    return static_cast<std::size_t>(
        TwoFourSm90Layout{rows, cols, static_cast<int>(dtype_size(dtype))}.bytes());
  }

  DType dtype;
  std::int64_t rows, cols;
  std::vector<std::uint8_t> values, metadata;
};

TEST(TwoFourSm90, EveryByteAndBitOfASlabHasOnePlace) {
  for (int size : {1, 2}) {
    const TwoFourSm90Layout layout{128, 128 / size, size};
    ASSERT_EQ(layout.bytes(), layout.slab_bytes());
    std::set<int> offsets;
    std::set<int> bits;
    for (int row = 0; row < 128; ++row) {
      for (int value = 0; value < 64 / size; ++value) offsets.insert(sm90_value_offset(size, row, value));
      for (int group = 0; group < 32 / size; ++group) {
        const Sm90MetadataPlace place = sm90_metadata_place(size, row, group);
        bits.insert(32 * place.word + place.bit);
        EXPECT_LT(place.word, 256 * layout.metadata_words());
        EXPECT_LE(place.bit, 28);
      }
    }
    EXPECT_EQ(static_cast<int>(offsets.size()), 8192 / size);
    EXPECT_EQ(*offsets.rbegin(), 8192 - size);
    EXPECT_EQ(static_cast<int>(bits.size()), 128 * 32 / size);
  }
}

TEST(TwoFourSm90, SizesArePaddedToBlocksAndTiles) {
  const TwoFourSm90Layout bf16{6144, 4096, 2};
  EXPECT_EQ(bf16.row_blocks(), 48);
  EXPECT_EQ(bf16.k_tiles(), 64);
  EXPECT_EQ(bf16.slab_bytes(), 9216);
  const TwoFourSm90Layout fp8{129, 132, 1};
  EXPECT_EQ(fp8.row_blocks(), 2);
  EXPECT_EQ(fp8.k_tiles(), 2);
  EXPECT_EQ(fp8.slab_bytes(), 10240);
  EXPECT_EQ(fp8.slab_offset(1, 1), 3 * 10240);
  EXPECT_EQ(fp8.bytes(), 4 * 10240);
}

// Places read off the definition of the fragments, independent of the formulas: PTX ISA, wgmma.mma_async.sp.
TEST(TwoFourSm90, KnownPlaces) {
  EXPECT_EQ(sm90_value_offset(2, 0, 3), 6);
  EXPECT_EQ(sm90_value_offset(2, 2, 0), 2 * 64 + 16);
  EXPECT_EQ(sm90_value_offset(1, 66, 17), 66 * 64 + (17 ^ 16));
  const Sm90MetadataPlace first = sm90_metadata_place(1, 8, 8);  // thread 3 holds row 8, groups 8 to 15
  EXPECT_EQ(first.word, 3 * 2);
  EXPECT_EQ(first.bit, 0);
  const Sm90MetadataPlace second = sm90_metadata_place(2, 8, 13);  // selector 1: thread 3, upper half word
  EXPECT_EQ(second.word, 3);
  EXPECT_EQ(second.bit, 16 + 4);
}

TEST(TwoFourSm90, PackedAndUnpackedIsTheSameAndPaddingIsLegal) {
  for (DType dtype : kDTypes) {
    for (auto [rows, cols] : {std::pair<int, int>{1, 4}, {5, 12}, {128, 128}, {130, 260}, {257, 64}}) {
      const Canonical c(dtype, rows, cols, 3);
      std::vector<std::uint8_t> slabs(c.packed_bytes(), 0xa5);
      EXPECT_FALSE(pack_sm90(c.view(), slabs.data()).found());
      std::vector<std::uint8_t> values(c.values.size(), 0xa5);
      std::vector<std::uint8_t> metadata(c.metadata.size(), 0xa5);
      const TwoFourSm90View view{slabs.data(), dtype, rows, cols};
      EXPECT_FALSE(unpack_sm90(view, values.data(), metadata.data()).found());
      EXPECT_EQ(values, c.values);
      EXPECT_EQ(metadata, c.metadata);
      // The padded weight as a whole: legal everywhere, zero outside.
      const TwoFourSm90Layout layout = view.layout();
      const std::int64_t all_rows = layout.row_blocks() * 128;
      const std::int64_t all_cols = layout.k_tiles() * layout.tile_cols();
      const auto size = static_cast<std::size_t>(layout.element_bytes);
      std::vector<std::uint8_t> all_values(static_cast<std::size_t>(all_rows * all_cols / 2) * size);
      std::vector<std::uint8_t> all_metadata(static_cast<std::size_t>(all_rows * all_cols / 8));
      EXPECT_FALSE(
          unpack_sm90({slabs.data(), dtype, all_rows, all_cols}, all_values.data(), all_metadata.data())
              .found());
      std::int64_t nonzero = 0;
      for (auto byte : all_values) nonzero += byte != 0;
      EXPECT_EQ(nonzero, static_cast<std::int64_t>(c.values.size())) << "every source byte is non-zero";
    }
  }
}

TEST(TwoFourSm90, TheBitmaskFormPacksToTheSameBytes) {
  for (DType dtype : kDTypes) {
    const std::int64_t rows = 131, cols = 204, value_stride = 110, mask_stride = 29;
    const Canonical c(dtype, rows, cols, 4);
    const auto size = static_cast<std::int64_t>(dtype_size(dtype));
    std::vector<std::uint8_t> values(static_cast<std::size_t>(rows * value_stride * size), 0x7f);
    std::vector<std::uint8_t> mask(static_cast<std::size_t>(rows * mask_stride), 0xff);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memcpy(&values[static_cast<std::size_t>(row * value_stride * size)],
                  &c.values[static_cast<std::size_t>(row * cols / 2 * size)],
                  static_cast<std::size_t>(cols / 2 * size));
      bitmask_row_from_metadata(&c.metadata[static_cast<std::size_t>(row * ((cols + 7) / 8))], cols,
                                &mask[static_cast<std::size_t>(row * mask_stride)]);
    }
    std::vector<std::uint8_t> expected(c.packed_bytes(), 0x11);
    std::vector<std::uint8_t> packed(c.packed_bytes(), 0x22);
    EXPECT_FALSE(pack_sm90(c.view(), expected.data()).found());
    const TwoFourBitmaskView view{values.data(), mask.data(), dtype, rows, cols, value_stride, mask_stride};
    EXPECT_FALSE(pack_sm90(view, packed.data()).found());
    EXPECT_EQ(packed, expected);
  }
}

TEST(TwoFourSm90, ViolationsAreNamedWithTheirPlace) {
  Canonical c(DType::kFloat8E4M3, 140, 268, 5);
  std::vector<std::uint8_t> slabs(c.packed_bytes());
  const auto row_bytes = static_cast<std::size_t>((c.cols + 7) / 8);
  c.metadata[139 * row_bytes + 33] = 0x40;  // group 66: nibble 0
  Sm90Violation seen = pack_sm90(c.view(), slabs.data());
  EXPECT_EQ(seen.row, 139);
  EXPECT_EQ(seen.group, 66);
  EXPECT_EQ(seen.nibble, 0u);
  EXPECT_FALSE(seen.not_finite);
  c.values[static_cast<std::size_t>(7 * c.cols / 2 + 21)] = 0xff;  // a NaN in group 10, an earlier row
  seen = pack_sm90(c.view(), slabs.data());
  EXPECT_EQ(seen.row, 7);
  EXPECT_EQ(seen.group, 10);
  EXPECT_TRUE(seen.not_finite);
}

TEST(TwoFourSm90, NegativeZeroIsStoredAsZero) {
  const std::uint16_t values[2] = {0x8000, 0x3f80};
  const std::uint8_t metadata[1] = {0b0100'0100};
  std::vector<std::uint8_t> slabs(9216);
  EXPECT_FALSE(pack_sm90(TwoFourView{values, metadata, DType::kBFloat16, 1, 4}, slabs.data()).found());
  std::uint16_t stored = 1;
  std::memcpy(&stored, slabs.data(), 2);
  EXPECT_EQ(stored, 0);
}

TEST(TwoFourSm90, OtherDtypesAndShapesAreErrors) {
  std::vector<std::uint8_t> slabs(1 << 16);
  EXPECT_THROW(pack_sm90(TwoFourView{nullptr, nullptr, DType::kFloat32, 0, 4}, slabs.data()), Error);
  EXPECT_THROW(pack_sm90(TwoFourView{nullptr, nullptr, DType::kInt8, 0, 6}, slabs.data()), Error);
  EXPECT_THROW(pack_sm90(TwoFourBitmaskView{nullptr, nullptr, DType::kInt8, 1, 8, 3, 1}, slabs.data()),
               Error);
  EXPECT_THROW(unpack_sm90({nullptr, DType::kFloat8E5M2, 0, 4}, nullptr, nullptr), Error);
}

}  // namespace
}  // namespace grille::formats
