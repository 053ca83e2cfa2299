#include "grille/kernels/pack_24.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/base/float_bits.h"
#include "grille/base/parallel.h"
#include "grille/formats/fp8.h"
#include "grille/kernels/two_four_cases.h"
#include "grille/kernels/weight_bits.h"

namespace grille::kernels {
namespace {

using testing::PackedBytes;
using testing::TwoFourCase;

// Packs a float32 weight of one row.
struct FloatRow {
  explicit FloatRow(std::vector<float> weights, TwoFourPositions form = TwoFourPositions::kMetadata) {
    const auto cols = static_cast<std::int64_t>(weights.size());
    values.resize(weights.size() / 2);
    positions.resize((weights.size() + 7) / 8);
    pack_24({.dense = {weights.data(), DType::kFloat32, 1, cols, cols},
             .packed = {values.data(), positions.data(), cols / 2, (cols + 7) / 8, form},
             .violation = &violation,
             .stream = {}});
  }
  std::vector<float> values;
  std::vector<std::uint8_t> positions;
  TwoFourViolation violation;
};

TEST(Pack24, StoresEachOfTheSixPatterns) {
  const std::vector<float> weights = {1, 2, 0, 0, 3, 0, 4, 0,  5, 0, 0,  6,
                                      0, 7, 8, 0, 0, 9, 0, 10, 0, 0, 11, 12};
  const FloatRow metadata(weights);
  EXPECT_FALSE(metadata.violation.found());
  EXPECT_EQ(metadata.values, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  // low index + 4 * high index: (0,1) (0,2) | (0,3) (1,2) | (1,3) (2,3)
  EXPECT_EQ(metadata.positions, (std::vector<std::uint8_t>{0x84, 0x9c, 0xed}));
  const FloatRow bitmask(weights, TwoFourPositions::kBitmask);
  EXPECT_EQ(bitmask.values, metadata.values);
  EXPECT_EQ(bitmask.positions, (std::vector<std::uint8_t>{0x53, 0x69, 0xca}));
}

TEST(Pack24, KeepsTheLowestFreeColumnsOfShortGroups) {
  const FloatRow row({0, 0, 0, 0, 0, 0, 0, 5, 6, 0, 0, 0, 0, 7, 0, 0}, TwoFourPositions::kBitmask);
  EXPECT_FALSE(row.violation.found());
  EXPECT_EQ(row.values, (std::vector<float>{0, 0, 0, 5, 6, 0, 0, 7}));
  EXPECT_EQ(row.positions, (std::vector<std::uint8_t>{0x93, 0x33}));
}

TEST(Pack24, CountsMinusZeroAsZeroAndStoresPlusZero) {
  const FloatRow row({-0.0f, 1, -0.0f, 2, -0.0f, -0.0f, 3, -0.0f});
  EXPECT_FALSE(row.violation.found());
  EXPECT_EQ(row.values, (std::vector<float>{1, 2, 0, 3}));
  EXPECT_FALSE(std::signbit(row.values[2]));
  EXPECT_EQ(row.positions, (std::vector<std::uint8_t>{0x8d}));
}

TEST(Pack24, FillsAnAbsentLastGroupAsEachFormDefines) {
  EXPECT_EQ(FloatRow({1, 2, 0, 0}).positions, (std::vector<std::uint8_t>{0x44}));
  EXPECT_EQ(FloatRow({1, 2, 0, 0}, TwoFourPositions::kBitmask).positions, (std::vector<std::uint8_t>{0x03}));
}

TEST(Pack24, ReportsTheFirstThirdNonZero) {
  std::vector<float> weights(64 * 256, 0.0f);
  for (std::size_t i : {40u * 256u + 8u, 9u * 256u + 20u, 9u * 256u + 100u}) {
    weights[i] = 1.0f;
    weights[i + 1] = -2.0f;
    weights[i + 3] = 0.5f;
  }
  std::vector<float> values(64 * 128);
  std::vector<std::uint8_t> positions(64 * 32);
  for (int threads : {1, 2, 7}) {
    const int before = num_threads();
    set_num_threads(threads);
    TwoFourViolation violation;
    pack_24({.dense = {weights.data(), DType::kFloat32, 64, 256, 256},
             .packed = {values.data(), positions.data(), 128, 32, TwoFourPositions::kMetadata},
             .violation = &violation,
             .stream = {}});
    set_num_threads(before);
    EXPECT_EQ(violation.row, 9);
    EXPECT_EQ(violation.group, 5);
    EXPECT_EQ(violation.nibble, 0b1011u);
    EXPECT_EQ(violation.values[1], -2.0f);
    EXPECT_EQ(violation.values[3], 0.5f);
  }
}

TEST(Pack24, SaysWhereAndWhatItRefused) {
  const FloatRow row({1, 2, 0, 0, 1, 2, 3, 0});
  try {
    check_packed(row.violation, "model.layers.0.mlp.up_proj");
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_STREQ(error.what(),
                 "model.layers.0.mlp.up_proj: row 0, group 1 (columns 4 to 7): weights 1, 2, 3, 0: "
                 "2:4 allows two that are not zero");
  }
  EXPECT_NO_THROW(check_packed(TwoFourViolation{}, "x"));
}

TEST(Pack24, RefusesWhatIsNotFiniteInEveryFloatType) {
  for (DType dtype : testing::kWeightTypes) {
    const WeightBits kind = weight_bits(dtype);
    if (dtype == DType::kInt8) continue;
    for (std::uint32_t bits = kind.first_not_finite; bits <= kind.magnitude_mask;
         bits += std::max(1u, (kind.magnitude_mask - kind.first_not_finite) / 3u)) {
      TwoFourCase c{dtype, 3, 16};
      std::vector<std::uint8_t> dense(static_cast<std::size_t>(3 * 16 * c.size()), 0);
      testing::set_bits(dense, c.size(), 2 * 16 + 13, bits);
      PackedBytes packed(c);
      TwoFourViolation violation;
      pack_24({.dense = testing::dense_view(c, static_cast<const void*>(dense.data())),
               .packed = testing::packed_view(c, packed.values.data(), packed.positions.data()),
               .violation = &violation,
               .stream = {}});
      EXPECT_EQ(violation.row, 2) << dtype_name(dtype) << " bits " << bits;
      EXPECT_EQ(violation.group, 3);
      EXPECT_FALSE(std::isfinite(violation.values[1]));
    }
  }
}

TEST(Pack24, RefusesBadArgumentsWithTheirValues) {
  std::vector<float> data(64);
  std::vector<std::uint8_t> positions(8);
  TwoFourViolation violation;
  Pack24Args good{.dense = {data.data(), DType::kFloat32, 2, 8, 8},
                  .packed = {data.data() + 32, positions.data(), 4, 1, TwoFourPositions::kMetadata},
                  .violation = &violation,
                  .stream = {}};
  EXPECT_NO_THROW(pack_24(good));
  const auto refused = [&](auto change) {
    Pack24Args args = good;
    change(args);
    EXPECT_THROW(pack_24(args), Error);
  };
  refused([](Pack24Args& a) { a.dense.cols = 6; });
  refused([](Pack24Args& a) { a.dense.row_stride = 4; });
  refused([](Pack24Args& a) { a.dense.rows = -1; });
  refused([](Pack24Args& a) { a.dense.dtype = DType::kInt32; });
  refused([](Pack24Args& a) { a.dense.data = nullptr; });
  refused([](Pack24Args& a) { a.packed.value_stride = 3; });
  refused([](Pack24Args& a) { a.packed.position_stride = 0; });
  refused([](Pack24Args& a) { a.packed.positions = nullptr; });
  refused([](Pack24Args& a) { a.violation = nullptr; });
}

TEST(WeightBits, GiveTheSameNumbersAsTheConversionsOfBaseAndFormats) {
  const auto same = [](float a, float b) {
    return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    ASSERT_TRUE(same(weight_value(weight_bits(DType::kFloat16), bits), float16_to_float(half))) << bits;
    ASSERT_TRUE(same(weight_value(weight_bits(DType::kBFloat16), bits), bfloat16_to_float(half))) << bits;
  }
  for (std::uint32_t bits = 0; bits < 0x100u; ++bits) {
    const auto byte = static_cast<std::uint8_t>(bits);
    ASSERT_TRUE(same(weight_value(weight_bits(DType::kFloat8E4M3), bits), formats::fp8_to_float(byte)))
        << bits;
    // e5m2 is the upper byte of a float16.
    const auto half = static_cast<std::uint16_t>(bits << 8);
    ASSERT_TRUE(same(weight_value(weight_bits(DType::kFloat8E5M2), bits), float16_to_float(half))) << bits;
    ASSERT_EQ(weight_value(weight_bits(DType::kInt8), bits),
              static_cast<float>(static_cast<std::int8_t>(byte)));
  }
}

class Pack24Cases : public ::testing::TestWithParam<TwoFourCase> {};

TEST_P(Pack24Cases, AgreeWithTheReferenceBitForBit) {
  const TwoFourCase& c = GetParam();
  std::vector<std::uint8_t> dense = testing::random_dense(c, 1);
  const auto pack = [&](auto function, TwoFourViolation& violation) {
    PackedBytes packed(c);
    function(Pack24Args{.dense = testing::dense_view(c, static_cast<const void*>(dense.data())),
                        .packed = testing::packed_view(c, packed.values.data(), packed.positions.data()),
                        .violation = &violation,
                        .stream = {}});
    return packed;
  };
  TwoFourViolation violation;
  TwoFourViolation expected_violation;
  EXPECT_EQ(pack(pack_24, violation), pack(pack_24_reference, expected_violation));
  EXPECT_FALSE(violation.found());
  EXPECT_FALSE(expected_violation.found());

  const std::int64_t row = c.rows - 1;  // now with a violation
  for (int j = 0; j < 4; ++j)
    testing::set_bits(dense, c.size(), row * c.dense_stride() + c.cols - 4 + j, 0x11);
  pack(pack_24, violation);
  pack(pack_24_reference, expected_violation);
  EXPECT_EQ(violation.row, row);
  EXPECT_EQ(violation.row, expected_violation.row);
  EXPECT_EQ(violation.group, expected_violation.group);
  EXPECT_EQ(violation.nibble, 0xfu);
  EXPECT_EQ(expected_violation.nibble, 0xfu);
  EXPECT_EQ(violation.values[3], expected_violation.values[3]);
}

INSTANTIATE_TEST_SUITE_P(All, Pack24Cases, ::testing::ValuesIn(testing::two_four_cases()));

}  // namespace
}  // namespace grille::kernels
