#include "grille/kernels/reference_values.h"

#include <cstring>

#include "grille/base/error.h"
#include "grille/base/float_bits.h"
#include "grille/formats/fp8.h"
#include "grille/kernels/weight_bits.h"

namespace grille::kernels {

float reference_value(DType dtype, const void* data, std::int64_t index) {
  const std::size_t size = dtype_size(dtype);
  std::uint32_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(data) + static_cast<std::size_t>(index) * size, size);
  return weight_value(weight_bits(dtype), bits);
}

void set_reference_value(DType dtype, void* data, std::int64_t index, float value) {
  switch (dtype) {
    case DType::kFloat32: static_cast<float*>(data)[index] = value; return;
    case DType::kBFloat16: static_cast<std::uint16_t*>(data)[index] = float_to_bfloat16(value); return;
    case DType::kFloat16: static_cast<std::uint16_t*>(data)[index] = float_to_float16(value); return;
    case DType::kFloat8E4M3: static_cast<std::uint8_t*>(data)[index] = formats::float_to_fp8(value); return;
    default: fail(ErrorCode::kUnsupported, "reference value: {} is no kernel dtype", dtype_name(dtype));
  }
}

}  // namespace grille::kernels
