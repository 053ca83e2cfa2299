#include "grille/kernels/rope.h"

#include <algorithm>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/kernels/cpu/row_kernels.h"
#include "grille/kernels/cuda/rows.h"

namespace grille::kernels {

void rope(const MatrixView& x, std::int64_t head_dim, const float* cos, const float* sin,
          const Stream& stream) {
  check(head_dim > 0 && head_dim % 2 == 0 && x.cols % head_dim == 0, ErrorCode::kInvalidArgument,
        "rope: {} columns are not whole heads of even size {}", x.cols, head_dim);
  if (stream.on_cuda()) return rope_cuda(x, head_dim, cos, sin, stream);
  const RowKernels& kernels = row_kernels();
  const std::int64_t half = head_dim / 2;
  const std::int64_t head_bytes = head_dim * static_cast<std::int64_t>(dtype_size(x.dtype));
  constexpr std::int64_t kElementsPerThread = 32 * 1024;
  const std::int64_t grain = kElementsPerThread / std::max<std::int64_t>(x.cols, 1) + 1;
  parallel_for(x.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t head = 0; head < x.cols / head_dim; ++head) {
        kernels.rope(x.dtype, x.row(t) + head * head_bytes, half, cos + t * half, sin + t * half);
      }
    }
  });
}

}  // namespace grille::kernels
