#include "grille/base/float_bits.h"

#include <bit>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace grille {
namespace {

struct Format {
  const char* name;
  std::uint16_t (*narrow)(float);
  float (*widen)(std::uint16_t);
  std::uint16_t infinity;  // also the number of finite values of one sign
};

class FloatBits : public ::testing::TestWithParam<Format> {};

TEST_P(FloatBits, EveryValueSurvivesTheWayToFloatAndBack) {
  const Format& format = GetParam();
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = format.widen(half);
    if ((half & 0x7fffu) > format.infinity) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(format.widen(format.narrow(value)))) << bits;
    } else {
      ASSERT_EQ(format.narrow(value), half) << bits;
    }
  }
}

// Rounding is right iff a number half-way between two neighbours goes to the even one, and any number
// closer to one of them goes to that one.
TEST_P(FloatBits, RoundsToNearestTiesToEven) {
  const Format& format = GetParam();
  for (std::uint16_t bits = 0; bits + 1 < format.infinity; ++bits) {
    const auto above_bits = static_cast<std::uint16_t>(bits + 1);
    const double below = format.widen(bits);
    const double above = format.widen(above_bits);
    const auto middle = static_cast<float>((below + above) / 2);  // exact: one more bit than the format's
    if (static_cast<double>(middle) != (below + above) / 2) continue;  // float's own subnormals end here
    ASSERT_EQ(format.narrow(middle), bits % 2 == 0 ? bits : above_bits) << bits;
    ASSERT_EQ(format.narrow(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(format.narrow(std::nextafter(middle, INFINITY)), above_bits) << bits;
    ASSERT_EQ(format.narrow(-std::nextafter(middle, INFINITY)), above_bits | 0x8000u) << bits;
  }
}

TEST_P(FloatBits, OverflowsToInfinityHalfWayPastTheLargest) {
  const Format& format = GetParam();
  const auto largest = static_cast<std::uint16_t>(format.infinity - 1);
  const double step = static_cast<double>(format.widen(largest)) - format.widen(largest - 1);
  const auto limit = static_cast<float>(static_cast<double>(format.widen(largest)) + step / 2);
  EXPECT_EQ(format.narrow(limit), format.infinity);
  EXPECT_EQ(format.narrow(std::nextafter(limit, 0.0f)), largest);
  EXPECT_EQ(format.narrow(INFINITY), format.infinity);
  EXPECT_EQ(format.narrow(-INFINITY), format.infinity | 0x8000u);
}

INSTANTIATE_TEST_SUITE_P(Formats, FloatBits,
                         ::testing::Values(Format{"bfloat16", float_to_bfloat16, bfloat16_to_float, 0x7f80},
                                           Format{"float16", float_to_float16, float16_to_float, 0x7c00}),
                         [](const auto& format) { return std::string(format.param.name); });

TEST(Float16, KnownValues) {
  EXPECT_EQ(float_to_float16(1.0f), 0x3c00);
  EXPECT_EQ(float_to_float16(-2.0f), 0xc000);
  EXPECT_EQ(float_to_float16(65504.0f), 0x7bff);
  EXPECT_EQ(float_to_float16(5.9604645e-8f), 0x0001);
  EXPECT_EQ(float16_to_float(0x3555), 0.33325195f);
}

}  // namespace
}  // namespace grille
