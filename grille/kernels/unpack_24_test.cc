#include "grille/kernels/unpack_24.h"

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/kernels/two_four_cases.h"

namespace grille::kernels {
namespace {

using testing::PackedBytes;
using testing::TwoFourCase;

class Unpack24Cases : public ::testing::TestWithParam<TwoFourCase> {};

TEST_P(Unpack24Cases, GiveBackWhatWasPacked) {
  const TwoFourCase& c = GetParam();
  const std::vector<std::uint8_t> dense = testing::random_dense(c, 2);
  PackedBytes packed(c);
  TwoFourViolation violation;
  pack_24({.dense = testing::dense_view(c, static_cast<const void*>(dense.data())),
           .packed = testing::packed_view(c, packed.values.data(), packed.positions.data()),
           .violation = &violation,
           .stream = {}});
  ASSERT_FALSE(violation.found());
  const auto unpack = [&](auto function) {
    std::vector<std::uint8_t> out(dense.size(), 0xa5);
    function(
        Unpack24Args{.packed = testing::const_packed_view(c, packed.values.data(), packed.positions.data()),
                     .dense = testing::dense_view(c, static_cast<void*>(out.data())),
                     .violation = &violation,
                     .stream = {}});
    EXPECT_FALSE(violation.found());
    return out;
  };
  const std::vector<std::uint8_t> unpacked = unpack(unpack_24);
  EXPECT_EQ(unpacked, unpack(unpack_24_reference));
  const WeightBits kind = weight_bits(c.dtype);
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.dense_stride(); ++j) {
      const std::uint32_t before = testing::bits_at(dense, c.size(), i * c.dense_stride() + j);
      const std::uint32_t after = testing::bits_at(unpacked, c.size(), i * c.dense_stride() + j);
      const bool zero = (before & kind.magnitude_mask) == 0;
      const std::uint32_t untouched = 0xa5a5a5a5u >> (32 - 8 * c.size());
      ASSERT_EQ(after, j >= c.cols ? untouched : zero ? 0u : before) << i << ", " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Unpack24Cases, ::testing::ValuesIn(testing::two_four_cases()));

TEST(Unpack24, RefusesEveryNibbleThatDoesNotNameTwoColumns) {
  for (TwoFourPositions form : {TwoFourPositions::kMetadata, TwoFourPositions::kBitmask}) {
    int accepted = 0;
    for (std::uint8_t nibble = 0; nibble < 16; ++nibble) {
      const bool metadata = form == TwoFourPositions::kMetadata;
      const std::uint8_t fine = metadata ? 0x44 : 0x33;
      const std::vector<std::uint8_t> positions = {fine, fine, fine,
                                                   static_cast<std::uint8_t>(nibble << 4 | (fine & 0xf))};
      const std::vector<float> values(16, 1.0f);
      std::vector<float> dense(32);
      TwoFourViolation violation;
      unpack_24({.packed = {values.data(), positions.data(), 8, 2, form},
                 .dense = {dense.data(), DType::kFloat32, 2, 16, 16},
                 .violation = &violation,
                 .stream = {}});
      if (!violation.found()) {
        ++accepted;
        EXPECT_EQ(dense[28] + dense[29] + dense[30] + dense[31], 2.0f);
        continue;
      }
      EXPECT_EQ(violation.row, 1);
      EXPECT_EQ(violation.group, 3);
      EXPECT_EQ(violation.nibble, nibble);
      EXPECT_EQ(dense[28] + dense[29] + dense[30] + dense[31], 0.0f);
      EXPECT_THROW(check_unpacked(violation, "weight"), Error);
    }
    EXPECT_EQ(accepted, 6);
  }
}

TEST(Unpack24, RefusesShortRows) {
  std::vector<float> data(64);
  std::vector<std::uint8_t> positions(8);
  TwoFourViolation violation;
  Unpack24Args args{.packed = {data.data(), positions.data(), 3, 1, TwoFourPositions::kMetadata},
                    .dense = {data.data() + 32, DType::kFloat32, 2, 8, 8},
                    .violation = &violation,
                    .stream = {}};
  EXPECT_THROW(unpack_24(args), Error);
}

}  // namespace
}  // namespace grille::kernels
