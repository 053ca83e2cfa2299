// Storage types of kernel elements, so that overloads can tell 16-bit formats apart.
#pragma once

#include <cstdint>

#include "grille/base/dtype.h"
#include "grille/base/error.h"

namespace grille::kernels {

struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};
struct Float8 {
  std::uint8_t bits;
};

// visit(T{}) with the storage type of float32, bfloat16 or float16.
template <typename Visit>
void with_float_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kFloat32: return visit(float{});
    case DType::kBFloat16: return visit(BFloat16{});
    case DType::kFloat16: return visit(Float16{});
    default: fail(ErrorCode::kUnsupported, "no CPU kernel for {}", dtype_name(dtype));
  }
}

// The same, float8_e4m3 included.
template <typename Visit>
void with_element_type(DType dtype, Visit&& visit) {
  if (dtype == DType::kFloat8E4M3) return visit(Float8{});
  with_float_type(dtype, visit);
}

}  // namespace grille::kernels
