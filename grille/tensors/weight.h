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
// With a scale, the weight at (r, c) is (values[r, c] - zero_point[i, j]) * scale[i, j], where i = r /
// block_rows and j = group_index[c], or c / block_cols where there is no group_index.
struct Weight {
  WeightFormat format = WeightFormat::kDense;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  at::Tensor values;  // float32, bfloat16, float16; float8_e4m3fn or int8, which have a scale
  at::Tensor mask;    // kTwoFour: uint8 [rows, mask_stride]
  at::Tensor scale;   // in the dtype that it is stored in: [rows], or [blocks of rows, blocks of columns]
  at::Tensor zero_point = {};   // int8, as scale, which then is 2-D; of a dense int8 weight; undefined: 0
  at::Tensor group_index = {};  // int32 [cols]; undefined: in order
  std::int64_t block_rows = 1;  // weights that share a scale; of a 2-D scale
  std::int64_t block_cols = 0;
  int bits = 8;  // of int8 values: 8, or 4 for -8 ... 7

  DType dtype() const;
  bool quantized() const { return scale.defined(); }
  // One scale a row and nothing else: what kernels take.
  bool scaled_by_row() const { return quantized() && scale.dim() == 1; }
  // Bytes of values, mask and scales, without padding.
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

// The same weight in 2:4 form if it is dense and every group has at most two non-zeros; else as it is. An
// integer with zero points is never 2:4: its zeros are not weights of 0. Stops at the first group that has
// three.
Weight compacted(Weight weight);

// The same weight in a form that kernels multiply, exactly: int8 with a scale a row as bfloat16 integers and
// that scale; other integers, and float8 with more scales than one a row, as dequantized().
Weight runnable(const Weight& weight);

// The weight without a scale, as compressed-tensors dequantizes it: each operation rounded to the scale's
// dtype. The form (dense or 2:4) stays.
Weight dequantized(const Weight& weight);

// View of a kTwoFour weight.
formats::TwoFourBitmaskView two_four_view(const Weight& weight);

// Rows `ids` of the weight (scale applied) in `dtype`: [ids, cols]. Throws Error{kInvalidArgument} for an id
// outside [0, rows).
at::Tensor gather_rows(const Weight& weight, const std::vector<std::int32_t>& ids, at::ScalarType dtype);

// The weight as a dense float32 [rows, cols] tensor, scale applied (in float32).
at::Tensor to_dense_float(const Weight& weight);
// The stored values (no scale applied) at their dense places, in the values' dtype.
at::Tensor to_dense_values(const Weight& weight);

}  // namespace grille::tensors
