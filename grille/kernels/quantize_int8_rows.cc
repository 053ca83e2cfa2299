#include "grille/kernels/quantize_int8_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/kernels/cpu/row_kernels.h"
#include "grille/kernels/reference_values.h"

namespace grille::kernels {
namespace {

constexpr std::int64_t kElementsPerThread = 32 * 1024;
constexpr float kHalfRange = 127.5f;

// An integer of at most 8 bits as bfloat16: the upper half of its float.
std::uint16_t integer_as_bfloat16(float integer) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(integer) >> 16);
}

void check_operands(const ConstMatrixView& x, const MatrixView& q) {
  check(x.dtype == DType::kFloat32 || x.dtype == DType::kBFloat16 || x.dtype == DType::kFloat16,
        ErrorCode::kInvalidArgument, "quantize_int8_rows: expected float32, bfloat16 or float16, got {}",
        dtype_name(x.dtype));
  check(q.dtype == DType::kBFloat16 && q.rows == x.rows && q.cols == x.cols, ErrorCode::kInvalidArgument,
        "quantize_int8_rows: expected bfloat16 [{}, {}] for the result, got {} [{}, {}]", x.rows, x.cols,
        dtype_name(q.dtype), q.rows, q.cols);
}

}  // namespace

void quantize_int8_rows(const ConstMatrixView& x, const MatrixView& q, float* scale) {
  check_operands(x, q);
  const RowKernels& kernels = row_kernels();
  const std::int64_t grain = kElementsPerThread / std::max<std::int64_t>(x.cols, 1) + 1;
  parallel_for(x.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float amax = kernels.largest_magnitude(x.dtype, x.row(i), x.cols);
      check(std::isfinite(amax), ErrorCode::kInvalidArgument,
            "quantize_int8_rows: row {} holds a NaN or an infinity", i);
      scale[i] = amax > 0 ? amax / kHalfRange : std::numeric_limits<float>::epsilon();
      auto* out = reinterpret_cast<std::uint16_t*>(q.row(i));
      for (std::int64_t j = 0; j < x.cols; ++j) {
        const float rounded = std::nearbyint(reference_value(x.dtype, x.row(i), j) / scale[i]);
        out[j] = integer_as_bfloat16(std::clamp(rounded, -128.0f, 127.0f));
      }
    }
  });
}

}  // namespace grille::kernels
