// 16-bit floating point as bits, and exact conversions. Scalar: vector code lives in kernels/.
#pragma once

#include <bit>
#include <cstdint>

namespace grille {

// Round to nearest even; NaN stays a (quiet) NaN.
inline std::uint16_t float_to_bfloat16(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<std::uint16_t>(bits >> 16);
}

inline float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Round to nearest even, overflow to infinity (IEEE 754 binary16).
std::uint16_t float_to_float16(float value);
float float16_to_float(std::uint16_t bits);

}  // namespace grille
