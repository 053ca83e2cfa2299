#include "grille/checkpoint/safetensors_dtype.h"

#include <array>
#include <utility>

namespace grille::checkpoint {
namespace {
constexpr std::array<std::pair<DType, std::string_view>, 15> kNames = {{
    {DType::kFloat64, "F64"},
    {DType::kFloat32, "F32"},
    {DType::kFloat16, "F16"},
    {DType::kBFloat16, "BF16"},
    {DType::kFloat8E4M3, "F8_E4M3"},
    {DType::kFloat8E5M2, "F8_E5M2"},
    {DType::kInt64, "I64"},
    {DType::kInt32, "I32"},
    {DType::kInt16, "I16"},
    {DType::kInt8, "I8"},
    {DType::kUInt64, "U64"},
    {DType::kUInt32, "U32"},
    {DType::kUInt16, "U16"},
    {DType::kUInt8, "U8"},
    {DType::kBool, "BOOL"},
}};
}  // namespace

std::string_view safetensors_name(DType dtype) { return kNames[static_cast<std::size_t>(dtype)].second; }

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const auto& [dtype, text] : kNames) {
    if (text == name) return dtype;
  }
  return std::nullopt;
}

}  // namespace grille::checkpoint
