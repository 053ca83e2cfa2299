// Integers packed in int32 words.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "grille/checkpoint/safetensors_writer.h"
#include "grille/tensors/weight.h"

namespace grille::checkpoint {

// Rows [begin, begin + values.size(0)) of `module`.weight_packed, as pack-quantized has them; values: int8.
void write_packed_rows(SafetensorsWriter& writer, const std::string& module, std::int64_t begin,
                       const at::Tensor& values, int bits);

// int8 [rows, groups] -> int32 [ceil(rows * bits / 32), groups].
at::Tensor packed_zero_points(const at::Tensor& points, int bits);

// All tensors of a weight whose form fits_marlin_24(). Scales are rounded to float16; Error{kInvalidArgument}
// for one that becomes 0 or infinite.
void write_marlin_24(SafetensorsWriter& writer, const std::string& module, const tensors::Weight& weight);

}  // namespace grille::checkpoint
