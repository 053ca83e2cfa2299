#include "grille/kernels/rms_norm.h"

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/kernels/cpu/row_kernels.h"
#include "grille/kernels/cuda/rows.h"

namespace grille::kernels {

void rms_norm(const ConstMatrixView& x, const float* weight, float eps, const MatrixView& y,
              const Stream& stream) {
  check(x.rows == y.rows && x.cols == y.cols && x.dtype == y.dtype && x.cols > 0, ErrorCode::kInvalidArgument,
        "rms_norm: x is {} [{}, {}], y {} [{}, {}]", dtype_name(x.dtype), x.rows, x.cols, dtype_name(y.dtype),
        y.rows, y.cols);
  if (stream.on_cuda()) return rms_norm_cuda(x, weight, eps, y, stream);
  const RowKernels& kernels = row_kernels();
  constexpr std::int64_t kElementsPerThread = 32 * 1024;
  parallel_for(x.rows, kElementsPerThread / x.cols + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      kernels.rms_norm(x.dtype, x.row(i), weight, eps, x.cols, y.row(i));
  });
}

}  // namespace grille::kernels
