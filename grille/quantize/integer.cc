#include "grille/quantize/integer.h"

#include <limits>

#include <ATen/ops/where.h>

#include "grille/base/error.h"
#include "grille/tensors/views.h"

namespace grille::quantize {
namespace {

double epsilon_of(at::ScalarType dtype) {
  if (dtype == at::kHalf) return 0x1p-10;
  return dtype == at::kBFloat16 ? 0x1p-7 : std::numeric_limits<float>::epsilon();
}

}  // namespace

tensors::Weight quantize_integer(const tensors::Weight& weight, int bits, std::int64_t group,
                                 at::ScalarType scale_dtype, const std::string& name) {
  check(!weight.quantized() && (bits == 4 || bits == 8), ErrorCode::kInvalidArgument,
        "{}: expected an unquantized weight and 4 or 8 bits", name);
  check(group >= 0 && (group == 0 || weight.cols % group == 0), ErrorCode::kInvalidArgument,
        "{}: {} input features are not a multiple of the group size {}; give a --group-size that divides "
        "them, or 0 "
        "for a scale a row",
        name, weight.cols, group);
  const std::int64_t groups = group == 0 ? 1 : weight.cols / group;
  const at::Tensor dense = tensors::to_dense_float(weight).view({weight.rows, groups, -1});
  const double range = static_cast<double>((1 << bits) - 1) / 2.0;
  at::Tensor scale = dense.abs().amax(2).div(range).to(scale_dtype);
  scale.masked_fill_(scale.eq(0), epsilon_of(scale_dtype));
  check(scale.isfinite().all().item<bool>(), ErrorCode::kCorruptData, "{}: a scale is too large for {}", name,
        dtype_name(tensors::dtype_from_torch(scale_dtype)));
  const int bound = 1 << (bits - 1);
  const at::Tensor values = dense.div(scale.to(at::kFloat).unsqueeze(2))
                                .round_()
                                .clamp_(-bound, bound - 1)
                                .to(at::kChar)
                                .view({weight.rows, weight.cols});
  tensors::Weight result = weight;
  result.bits = bits;
  result.values = values;
  result.scale = group == 0 ? scale.view({weight.rows}) : scale;
  result.block_cols = group;
  if (weight.format != tensors::WeightFormat::kTwoFour) return result;
  const tensors::Weight packed = tensors::two_four_from_dense(values, name);
  result.values = packed.values;
  result.mask = packed.mask;
  return result;
}

}  // namespace grille::quantize
