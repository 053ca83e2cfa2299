// Element types of tensors, in memory and on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace grille {

enum class DType : std::uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3,  // e4m3fn: 1 sign, 4 exponent, 3 mantissa bits, no infinity, largest 448
  kFloat8E5M2,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt64,
  kUInt32,
  kUInt16,
  kUInt8,
  kBool,
};

// Bytes of one element.
std::size_t dtype_size(DType dtype);

// PyTorch's name without the "torch." prefix: "float32", "bfloat16", "float8_e4m3fn", ...
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);

// True for float64 ... float8_e5m2.
bool is_floating_point(DType dtype);

}  // namespace grille
