#include "grille/formats/fp8.h"

#include <bit>
#include <cmath>

namespace grille::formats {

std::uint8_t float_to_fp8(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint8_t sign = static_cast<std::uint8_t>((bits >> 24) & 0x80u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;
  std::uint8_t result = 0;
  if (magnitude < 0x3c800000u) {  // below 2^-6, the smallest normal: a multiple of 2^-9
    result = static_cast<std::uint8_t>(std::nearbyint(std::bit_cast<float>(magnitude) * 512.0f));
  } else if (magnitude >= 0x43e00000u) {  // 448 and above
    result = 0x7e;
  } else {  // keep 3 of 23 mantissa bits, move the exponent's bias from 127 to 7
    const std::uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
    result = static_cast<std::uint8_t>((rounded >> 20) - (120u << 3));
    if (result > 0x7e) result = 0x7e;
  }
  return result == 0 ? 0 : static_cast<std::uint8_t>(result | sign);
}

float fp8_to_float(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
  const std::uint32_t exponent = (bits >> 3) & 0xfu;
  const std::uint32_t mantissa = bits & 7u;
  if ((bits & 0x7fu) == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * (1.0f / 512.0f);
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 120u) << 23) | (mantissa << 20));
}

}  // namespace grille::formats
