// Weights as bit patterns, so that code that only moves them is written once for all element types.
#pragma once

#include <bit>
#include <cstdint>

#include "grille/base/dtype.h"

namespace grille::kernels {

struct WeightBits {
  DType dtype = DType::kFloat32;
  std::uint32_t magnitude_mask = 0;    // all bits but a float's sign; zero is bits & mask == 0
  std::uint32_t first_not_finite = 0;  // the smallest magnitude that is an infinity or a NaN
};

// The dtypes that 2:4 weights come in. Others give a mask of 0.
constexpr WeightBits weight_bits(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return {dtype, 0x7fffffffu, 0x7f800000u};
    case DType::kBFloat16: return {dtype, 0x7fffu, 0x7f80u};
    case DType::kFloat16: return {dtype, 0x7fffu, 0x7c00u};
    case DType::kFloat8E4M3: return {dtype, 0x7fu, 0x7fu};
    case DType::kFloat8E5M2: return {dtype, 0x7fu, 0x7cu};
    case DType::kInt8: return {dtype, 0xffu, 0x100u};
    default: return {dtype, 0, 0};
  }
}

// Calls f with a value of the unsigned type that holds one weight: f(std::uint8_t{}), ...
template <typename F>
void with_bits_of(DType dtype, F&& f) {
  switch (dtype_size(dtype)) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    default: return f(std::uint32_t{});
  }
}

namespace detail {
// A float of `mantissa` bits and an exponent of bias 2^(5 or 4) / 2 - 1, as float: exact.
constexpr float small_float(std::uint32_t bits, int mantissa, int bias, int total) {
  const std::uint32_t magnitude = bits & ((1u << (total - 1)) - 1u);
  const std::uint32_t sign = (bits >> (total - 1)) << 31;
  const auto exponent = static_cast<int>(magnitude >> mantissa);
  const std::uint32_t fraction = magnitude & ((1u << mantissa) - 1u);
  const std::uint32_t whole = exponent == 0 ? fraction : fraction | (1u << mantissa);
  const int scale = (exponent == 0 ? 1 : exponent) - bias - mantissa;
  const float value =
      static_cast<float>(whole) * std::bit_cast<float>(static_cast<std::uint32_t>(scale + 127) << 23);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}
}  // namespace detail

// The number that a weight's bits stand for; NaN payloads are not kept.
constexpr float weight_value(const WeightBits& kind, std::uint32_t bits) {
  if (kind.dtype == DType::kFloat32) return std::bit_cast<float>(bits);
  if (kind.dtype == DType::kBFloat16) return std::bit_cast<float>(bits << 16);
  if (kind.dtype == DType::kInt8) return static_cast<float>(static_cast<std::int8_t>(bits));
  if ((bits & kind.magnitude_mask) >= kind.first_not_finite) {
    const bool infinite =
        kind.dtype != DType::kFloat8E4M3 && (bits & kind.magnitude_mask) == kind.first_not_finite;
    const std::uint32_t sign = (bits & (kind.magnitude_mask + 1u)) != 0 ? 0x80000000u : 0u;
    return std::bit_cast<float>(sign | (infinite ? 0x7f800000u : 0x7fc00000u));
  }
  if (kind.dtype == DType::kFloat16) return detail::small_float(bits, 10, 15, 16);
  if (kind.dtype == DType::kFloat8E5M2) return detail::small_float(bits, 2, 15, 8);
  return detail::small_float(bits, 3, 7, 8);
}

}  // namespace grille::kernels
