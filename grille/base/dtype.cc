#include "grille/base/dtype.h"

#include <array>

namespace grille {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<Row, 15> kRows = {{
    {DType::kFloat64, "float64", 8},
    {DType::kFloat32, "float32", 4},
    {DType::kFloat16, "float16", 2},
    {DType::kBFloat16, "bfloat16", 2},
    {DType::kFloat8E4M3, "float8_e4m3fn", 1},
    {DType::kFloat8E5M2, "float8_e5m2", 1},
    {DType::kInt64, "int64", 8},
    {DType::kInt32, "int32", 4},
    {DType::kInt16, "int16", 2},
    {DType::kInt8, "int8", 1},
    {DType::kUInt64, "uint64", 8},
    {DType::kUInt32, "uint32", 4},
    {DType::kUInt16, "uint16", 2},
    {DType::kUInt8, "uint8", 1},
    {DType::kBool, "bool", 1},
}};

}  // namespace

std::size_t dtype_size(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].size; }

std::string_view dtype_name(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

bool is_floating_point(DType dtype) { return dtype <= DType::kFloat8E5M2; }

}  // namespace grille
