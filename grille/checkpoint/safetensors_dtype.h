// The names of element types in a safetensors header.
#pragma once

#include <optional>
#include <string_view>

#include "grille/base/dtype.h"

namespace grille::checkpoint {

// "F32", "BF16", "F8_E4M3", ...
std::string_view safetensors_name(DType dtype);
std::optional<DType> dtype_from_safetensors(std::string_view name);

}  // namespace grille::checkpoint
