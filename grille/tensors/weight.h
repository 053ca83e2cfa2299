// A linear layer's weight in whatever form it is stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grille/base/dtype.h"
#include "grille/formats/two_four.h"

namespace grille::tensors {

enum class WeightFormat {
  kDense,    // values [rows, cols]
  kTwoFour,  // values and bitmask with padded rows (formats::TwoFourBitmaskView)
};

// [rows, cols] = [out_features, in_features], on the CPU. Cheap to copy: the data are shared.
struct Weight {
  WeightFormat format = WeightFormat::kDense;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  at::Tensor values;  // float32, bfloat16, float16 or float8_e4m3fn
  at::Tensor mask;    // kTwoFour: uint8 [rows, mask_stride]
  at::Tensor scale;   // float8: [rows], in the dtype that it is stored in; otherwise undefined

  DType dtype() const;
  bool quantized() const { return scale.defined(); }
  // Bytes of values, mask and scale, without padding.
  std::int64_t stored_bytes() const;
};

// A dense weight. `scale` [rows] is required for float8 and refused otherwise.
Weight dense_weight(at::Tensor values, at::Tensor scale = {});

// A 2:4 weight whose rows are padded as CPU kernels like them (to 64 columns). Padding is filled in, the rest
// is uninitialised: the caller writes every row with set_two_four_row(). cols % 4 == 0.
Weight empty_two_four(std::int64_t rows, std::int64_t cols, DType dtype);

// Writes one row of a 2:4 weight: cols / 2 kept values and ceil(cols / 8) bytes of bitmask (bit k of byte b:
// column 8 b + k). A kept -0 is stored as +0. Returns false, and leaves the row undefined, if a group does
// not keep exactly two columns; see first_bad_group(). Rows may be written from several threads.
bool set_two_four_row(Weight& weight, std::int64_t row, const void* values, const std::uint8_t* bitmask);

// The first group of a bitmask row that does not keep exactly two columns, or -1.
std::int64_t first_bad_group(const std::uint8_t* bitmask, std::int64_t cols);

// Packs a dense [rows, cols] weight that is 2:4 already. Throws Error{kCorruptData} that names `name`, the
// row, the group and its values at the first group with a third non-zero, a NaN or an infinity.
Weight two_four_from_dense(const at::Tensor& dense, const std::string& name);

// View of a kTwoFour weight.
formats::TwoFourBitmaskView two_four_view(const Weight& weight);

// Rows `ids` of the weight (scale applied) in `dtype`: [ids, cols]. Throws Error{kInvalidArgument} for an id
// outside [0, rows).
at::Tensor gather_rows(const Weight& weight, const std::vector<std::int32_t>& ids, at::ScalarType dtype);

// The weight as a dense float32 [rows, cols] tensor, scale applied.
at::Tensor to_dense_float(const Weight& weight);
// The stored values (no scale applied) at their dense places, in the values' dtype.
at::Tensor to_dense_values(const Weight& weight);

}  // namespace grille::tensors
