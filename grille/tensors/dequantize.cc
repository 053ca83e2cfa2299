// From stored integers and scales to numbers.
#include <ATen/ops/index_select.h>
#include <ATen/ops/repeat_interleave.h>

#include "grille/base/error.h"
#include "grille/tensors/weight.h"

namespace grille::tensors {
namespace {

// A value of each block for every column of the rows [begin, end): [end - begin, cols], or [end - begin, 1]
// where there is one a row.
at::Tensor spread(const Weight& weight, const at::Tensor& blocks, std::int64_t begin, std::int64_t end) {
  if (blocks.dim() == 1) return blocks.slice(0, begin, end).unsqueeze(1);
  const std::int64_t first = begin / weight.block_rows;
  at::Tensor part = blocks.slice(0, first, (end - 1) / weight.block_rows + 1);
  if (weight.block_rows > 1) {
    part = at::repeat_interleave(part, weight.block_rows, 0)
               .slice(0, begin - first * weight.block_rows, end - first * weight.block_rows);
  }
  if (part.size(1) == 1) return part;
  if (weight.group_index.defined()) return part.index_select(1, weight.group_index);
  return at::repeat_interleave(part, weight.block_cols, 1).slice(1, 0, weight.cols);
}

// Dense values in `dtype`, each operation rounded to it; some rows at a time, so that no second matrix of
// scales is made.
at::Tensor dequantize(const Weight& weight, at::ScalarType dtype) {
  constexpr std::int64_t kRows = 256;
  const at::Tensor values = to_dense_values(weight);
  at::Tensor result = values.to(dtype);
  for (std::int64_t begin = 0; begin < weight.rows; begin += kRows) {
    const std::int64_t end = std::min(begin + kRows, weight.rows);
    at::Tensor rows = result.slice(0, begin, end);
    if (weight.zero_point.defined()) rows.sub_(spread(weight, weight.zero_point, begin, end).to(dtype));
    rows.mul_(spread(weight, weight.scale, begin, end).to(dtype));
  }
  return result;
}

}  // namespace

at::Tensor to_dense_float(const Weight& weight) {
  if (!weight.quantized()) return to_dense_values(weight).to(at::kFloat);
  return dequantize(weight, at::kFloat);
}

Weight dequantized(const Weight& weight) {
  check(weight.quantized(), ErrorCode::kInvalidArgument, "dequantized: the weight has no scale");
  const at::Tensor values = dequantize(weight, weight.scale.scalar_type());
  return weight.format == WeightFormat::kTwoFour ? two_four_from_dense(values, "2:4 weight")
                                                 : dense_weight(values);
}

Weight runnable(const Weight& weight) {
  const bool integers = weight.values.scalar_type() == at::kChar;
  if (!weight.quantized() || (!integers && weight.scaled_by_row())) return weight;
  if (!weight.scaled_by_row()) return dequantized(weight);
  Weight result = weight;
  result.values = weight.values.to(at::kBFloat16);  // exact: up to 256 in magnitude
  return result;
}

}  // namespace grille::tensors
