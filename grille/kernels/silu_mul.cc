#include "grille/kernels/silu_mul.h"

#include <algorithm>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/kernels/cpu/row_kernels.h"
#include "grille/kernels/cuda/rows.h"

namespace grille::kernels {

void silu_mul(const ConstMatrixView& gate, const ConstMatrixView& up, const MatrixView& y,
              const Stream& stream) {
  const auto same = [&](const ConstMatrixView& v) {
    return v.rows == gate.rows && v.cols == gate.cols && v.dtype == gate.dtype;
  };
  check(same(up) && same(y), ErrorCode::kInvalidArgument,
        "silu_mul: gate is {} [{}, {}], up {} [{}, {}], y {} [{}, {}]", dtype_name(gate.dtype), gate.rows,
        gate.cols, dtype_name(up.dtype), up.rows, up.cols, dtype_name(y.dtype), y.rows, y.cols);
  if (stream.on_cuda()) return silu_mul_cuda(gate, up, y, stream);
  const RowKernels& kernels = row_kernels();
  constexpr std::int64_t kElementsPerThread = 16 * 1024;
  const std::int64_t grain = kElementsPerThread / std::max<std::int64_t>(gate.cols, 1) + 1;
  parallel_for(gate.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      kernels.silu_mul(gate.dtype, gate.row(i), up.row(i), gate.cols, y.row(i));
    }
  });
}

void silu_mul_pairs(const ConstMatrixView& x, const MatrixView& y, const Stream& stream) {
  check(x.rows == y.rows && x.cols == 2 * y.cols && x.dtype == y.dtype, ErrorCode::kInvalidArgument,
        "silu_mul_pairs: x is {} [{}, {}], y {} [{}, {}]", dtype_name(x.dtype), x.rows, x.cols,
        dtype_name(y.dtype), y.rows, y.cols);
  check(stream.on_cuda(), ErrorCode::kUnsupported, "silu_mul_pairs: expected a CUDA stream");
  silu_mul_pairs_cuda(x, y, stream);
}

}  // namespace grille::kernels
