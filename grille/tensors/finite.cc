#include "grille/tensors/finite.h"

#include <algorithm>

namespace grille::tensors {
namespace {

// With the sign bit cleared, everything from `limit` on is a NaN or an infinity.
template <typename Bits>
std::int64_t first_from(const void* data, std::int64_t count, Bits limit) {
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  constexpr std::int64_t kBlock = 4096;  // scanned without a branch, so that it vectorizes
  const Bits* values = static_cast<const Bits*>(data);
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, count);
    Bits largest = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      largest = std::max(largest, static_cast<Bits>(values[i] & kMagnitude));
    }
    if (largest < limit) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      if (static_cast<Bits>(values[i] & kMagnitude) >= limit) return i;
    }
  }
  return -1;
}

}  // namespace

std::int64_t first_not_finite(const void* data, DType dtype, std::int64_t count) {
  switch (dtype) {
    case DType::kFloat64: return first_from<std::uint64_t>(data, count, 0x7ff0000000000000u);
    case DType::kFloat32: return first_from<std::uint32_t>(data, count, 0x7f800000u);
    case DType::kFloat16: return first_from<std::uint16_t>(data, count, 0x7c00u);
    case DType::kBFloat16: return first_from<std::uint16_t>(data, count, 0x7f80u);
    case DType::kFloat8E4M3: return first_from<std::uint8_t>(data, count, 0x7fu);
    case DType::kFloat8E5M2: return first_from<std::uint8_t>(data, count, 0x7cu);
    default: return -1;
  }
}

}  // namespace grille::tensors
