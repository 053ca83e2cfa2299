#include "grille/formats/fp8.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace grille::formats {
namespace {

// The definition: sign, 4 exponent bits of bias 7, 3 mantissa bits, subnormals, no infinity.
double defined_value(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 15;
  const int mantissa = bits & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 7 - 3);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

TEST(Fp8, EveryCodeHasItsDefinedValue) {
  for (int code = 0; code < 256; ++code) {
    const auto bits = static_cast<std::uint8_t>(code);
    if ((bits & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(fp8_to_float(bits)));
    } else {
      EXPECT_EQ(fp8_to_float(bits), defined_value(bits)) << code;
    }
  }
  EXPECT_EQ(fp8_to_float(0x7e), kFp8Max);
}

TEST(Fp8, EveryValueSurvivesTheWayToFloatAndBack) {
  for (int code = 0; code < 256; ++code) {
    const auto bits = static_cast<std::uint8_t>(code);
    if ((bits & 0x7f) == 0x7f) continue;
    EXPECT_EQ(float_to_fp8(fp8_to_float(bits)), bits == 0x80 ? 0 : bits) << code;
  }
}

TEST(Fp8, RoundsToNearestTiesToEvenAtEveryMiddle) {
  for (std::uint8_t bits = 0; bits < 0x7e; ++bits) {
    const auto above = static_cast<std::uint8_t>(bits + 1);
    const float middle = (fp8_to_float(bits) + fp8_to_float(above)) / 2;  // exact in float
    EXPECT_EQ(float_to_fp8(middle), bits % 2 == 0 ? bits : above) << int{bits};
    EXPECT_EQ(float_to_fp8(std::nextafter(middle, 0.0f)), bits) << int{bits};
    EXPECT_EQ(float_to_fp8(std::nextafter(middle, 1e9f)), above) << int{bits};
    const std::uint8_t negative = float_to_fp8(-std::nextafter(middle, 0.0f));
    EXPECT_EQ(negative, bits == 0 ? 0 : bits | 0x80) << int{bits};
  }
}

TEST(Fp8, SaturatesWhereTorchGivesNan) {
  for (float value : {448.0f, 449.0f, 463.9f, 464.0f, 480.0f, 1e30f, static_cast<float>(INFINITY)}) {
    EXPECT_EQ(float_to_fp8(value), 0x7e) << value;
    EXPECT_EQ(float_to_fp8(-value), 0xfe) << value;
  }
  EXPECT_EQ(float_to_fp8(std::numeric_limits<float>::quiet_NaN()), 0x7f);
}

TEST(Fp8, NothingRoundsToMinusZero) {
  EXPECT_EQ(float_to_fp8(-0.0f), 0);
  EXPECT_EQ(float_to_fp8(-1e-30f), 0);
  EXPECT_EQ(float_to_fp8(-std::ldexp(1.0f, -10)), 0);  // half of the smallest subnormal: a tie, to even
  EXPECT_EQ(float_to_fp8(std::nextafter(std::ldexp(1.0f, -10), 1.0f)), 1);
}

}  // namespace
}  // namespace grille::formats
