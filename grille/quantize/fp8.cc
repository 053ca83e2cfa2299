#include "grille/quantize/fp8.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "grille/base/error.h"
#include "grille/kernels/quantize_fp8_rows.h"
#include "grille/tensors/views.h"

namespace grille::quantize {

Fp8Result quantize_fp8(const tensors::Weight& weight, at::ScalarType scale_dtype, const std::string& name) {
  check(!weight.quantized(), ErrorCode::kInvalidArgument, "{}: is FP8 already", name);
  // A 2:4 weight's stored values and padding (zeros) have the same largest magnitude as its dense rows.
  const MatrixView values = tensors::matrix_view(weight.values);
  at::Tensor scale = at::empty({weight.rows}, at::kFloat);
  at::Tensor rounded = at::empty_like(weight.values, weight.values.options().dtype(at::kFloat8_e4m3fn));
  Fp8Result result{weight, 0};
  try {
    kernels::fp8_weight_scales(values, tensors::dtype_from_torch(scale_dtype),
                               scale.mutable_data_ptr<float>());
    result.saturated =
        kernels::round_to_fp8_rows(values, scale.const_data_ptr<float>(), tensors::matrix_view(rounded));
  } catch (const Error& error) {  // the kernel names the row; the layer is known here
    throw Error(ErrorCode::kCorruptData, name + ": " + error.what());
  }
  result.weight.values = rounded;
  result.weight.scale = scale.to(scale_dtype);  // exact: it was rounded to this dtype already
  return result;
}

}  // namespace grille::quantize
