#include "grille/kernels/cuda/rows.h"

#include "grille/base/error.h"

namespace grille::kernels {

void refuse_row_dtype(const char* op, DType dtype) {
  fail(ErrorCode::kInvalidArgument, "{}: expected float32, bfloat16 or float16, got {}", op,
       dtype_name(dtype));
}

}  // namespace grille::kernels
