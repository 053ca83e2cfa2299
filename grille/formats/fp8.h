// FP8 e4m3fn as bits: 1 sign, 4 exponent (bias 7), 3 mantissa bits; largest 448; 0x7f/0xff are NaN.
// Source: "FP8 Formats for Deep Learning", arXiv 2209.05433.
#pragma once

#include <cstdint>

namespace grille::formats {

constexpr float kFp8Max = 448.0f;

// Round to nearest even, saturate to +-448 (infinities too), subnormals exact, -0 becomes +0.
// A NaN gives 0x7f: callers that must not store one test for it first.
std::uint8_t float_to_fp8(float value);

// Exact.
float fp8_to_float(std::uint8_t bits);

}  // namespace grille::formats
