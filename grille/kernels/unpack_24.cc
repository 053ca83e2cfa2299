#include "grille/kernels/unpack_24.h"

#include "grille/base/error.h"
#include "grille/kernels/cpu/unpack_24.h"
#include "grille/kernels/cuda/unpack_24.h"
#include "grille/kernels/two_four_checks.h"

namespace grille::kernels {

void unpack_24(const Unpack24Args& args) {
  check_weight("unpack_24", args.dense);
  check_packed_shape("unpack_24", args.dense.cols, args.packed.value_stride, args.packed.position_stride);
  const bool empty = args.dense.rows == 0 || args.dense.cols == 0;
  check_pointers("unpack_24", args.violation, empty, args.dense.data, args.packed.values,
                 args.packed.positions);
  if (args.stream.on_cuda()) {
    unpack_24_cuda(args);
  } else {
    unpack_24_cpu(args);
  }
}

}  // namespace grille::kernels
