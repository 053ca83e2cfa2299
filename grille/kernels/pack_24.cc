#include "grille/kernels/pack_24.h"

#include "grille/base/error.h"
#include "grille/kernels/cpu/pack_24.h"
#include "grille/kernels/cuda/pack_24.h"
#include "grille/kernels/two_four_checks.h"

namespace grille::kernels {

void pack_24(const Pack24Args& args) {
  check_weight("pack_24", args.dense);
  check_packed_shape("pack_24", args.dense.cols, args.packed.value_stride, args.packed.position_stride);
  const bool empty = args.dense.rows == 0 || args.packed.position_stride == 0;
  check_pointers("pack_24", args.violation, empty, args.dense.data, args.packed.values,
                 args.packed.positions);
  if (args.stream.on_cuda()) {
    pack_24_cuda(args);
  } else {
    pack_24_cpu(args);
  }
}

}  // namespace grille::kernels
