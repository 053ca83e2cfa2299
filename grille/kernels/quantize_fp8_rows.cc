#include "grille/kernels/quantize_fp8_rows.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/formats/fp8.h"
#include "grille/kernels/cpu/row_kernels.h"
#include "grille/kernels/cuda/rows.h"
#include "grille/kernels/reference_values.h"

namespace grille::kernels {
namespace {

constexpr std::int64_t kElementsPerThread = 32 * 1024;
constexpr float kSmallestTokenScale = 1.0f / (formats::kFp8Max * 512.0f);

void check_source(const ConstMatrixView& x) {
  check(x.dtype == DType::kFloat32 || x.dtype == DType::kBFloat16 || x.dtype == DType::kFloat16,
        ErrorCode::kInvalidArgument, "quantize_fp8_rows: expected float32, bfloat16 or float16, got {}",
        dtype_name(x.dtype));
  check(x.rows >= 0 && x.cols >= 0 && (x.rows <= 1 || x.row_stride >= x.cols), ErrorCode::kInvalidArgument,
        "quantize_fp8_rows: matrix of [{}, {}] with row stride {}", x.rows, x.cols, x.row_stride);
}

void check_codes(const ConstMatrixView& x, const MatrixView& q) {
  check(q.dtype == DType::kFloat8E4M3 && q.rows == x.rows && q.cols == x.cols, ErrorCode::kInvalidArgument,
        "quantize_fp8_rows: expected float8_e4m3fn [{}, {}] for the result, got {} [{}, {}]", x.rows, x.cols,
        dtype_name(q.dtype), q.rows, q.cols);
}

template <typename Row>
void for_rows(const ConstMatrixView& x, Row&& row) {
  parallel_for(x.rows, kElementsPerThread / std::max<std::int64_t>(x.cols, 1) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) row(i);
               });
}

float row_amax(const RowKernels& kernels, const ConstMatrixView& x, std::int64_t i) {
  const float amax = kernels.largest_magnitude(x.dtype, x.row(i), x.cols);
  check(std::isfinite(amax), ErrorCode::kInvalidArgument,
        "quantize_fp8_rows: row {} holds a NaN or an infinity; FP8 has no code for it", i);
  return amax;
}

std::uint8_t* codes(const MatrixView& q, std::int64_t i) { return reinterpret_cast<std::uint8_t*>(q.row(i)); }

// `value` > 0 as the dtype stores it, but not 0.
float stored_scale(float value, DType dtype, std::int64_t row) {
  std::uint32_t memory = 0;
  set_reference_value(dtype, &memory, 0, value);
  if (memory == 0) memory = 1;  // the smallest positive number of every float dtype
  const float stored = reference_value(dtype, &memory, 0);
  check(std::isfinite(stored), ErrorCode::kInvalidArgument,
        "quantize_fp8_rows: the scale {} of row {} exceeds {}", value, row, dtype_name(dtype));
  return stored;
}

}  // namespace

void quantize_fp8_rows(const ConstMatrixView& x, const MatrixView& q, float* scale, const Stream& stream) {
  check_source(x);
  check_codes(x, q);
  if (stream.on_cuda()) return quantize_fp8_rows_cuda(x, q, scale, stream);
  const RowKernels& kernels = row_kernels();
  for_rows(x, [&](std::int64_t i) {
    scale[i] = std::max(row_amax(kernels, x, i) / formats::kFp8Max, kSmallestTokenScale);
    kernels.round_to_fp8(x.dtype, x.row(i), x.cols, scale[i], codes(q, i));
  });
}

void fp8_weight_scales(const ConstMatrixView& weight, DType scale_dtype, float* scale) {
  check_source(weight);
  check(scale_dtype == DType::kFloat32 || scale_dtype == DType::kBFloat16 || scale_dtype == DType::kFloat16,
        ErrorCode::kInvalidArgument, "fp8_weight_scales: a scale is float32, bfloat16 or float16, not {}",
        dtype_name(scale_dtype));
  const RowKernels& kernels = row_kernels();
  for_rows(weight, [&](std::int64_t i) {
    const float amax = row_amax(kernels, weight, i);
    scale[i] = amax == 0.0f ? 1.0f : stored_scale(amax / formats::kFp8Max, scale_dtype, i);
  });
}

std::int64_t round_to_fp8_rows(const ConstMatrixView& weight, const float* scale, const MatrixView& q) {
  check_source(weight);
  check_codes(weight, q);
  const RowKernels& kernels = row_kernels();
  std::atomic<std::int64_t> saturated = 0;
  for_rows(weight, [&](std::int64_t i) {
    row_amax(kernels, weight, i);
    check(scale[i] > 0.0f && std::isfinite(scale[i]), ErrorCode::kInvalidArgument,
          "round_to_fp8_rows: the scale of row {} is {}", i, scale[i]);
    saturated += kernels.round_to_fp8(weight.dtype, weight.row(i), weight.cols, scale[i], codes(q, i));
  });
  return saturated;
}

}  // namespace grille::kernels
