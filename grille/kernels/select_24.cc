#include "grille/kernels/select_24.h"

#include "grille/base/error.h"
#include "grille/kernels/cpu/select_24.h"
#include "grille/kernels/cuda/select_24.h"
#include "grille/kernels/two_four_checks.h"

namespace grille::kernels {

void select_24(const Select24Args& args) {
  const ConstMatrixView& scores = args.scores;
  check(scores.dtype == DType::kFloat32, ErrorCode::kInvalidArgument,
        "select_24: expected float32 scores, got {}", dtype_name(scores.dtype));
  check(args.group >= 1 && args.group <= 32 && args.keep >= 1 && args.keep <= args.group,
        ErrorCode::kInvalidArgument,
        "select_24: expected to keep n of m with 1 <= n <= m <= 32, got {} of {}", args.keep, args.group);
  check(scores.rows >= 0 && scores.cols >= 0 && scores.cols % args.group == 0 &&
            scores.row_stride >= scores.cols,
        ErrorCode::kInvalidArgument,
        "select_24: expected [rows, cols] with cols a multiple of {} and row stride >= cols, got [{}, {}], "
        "stride {}",
        args.group, scores.rows, scores.cols, scores.row_stride);
  const std::int64_t mask_cols = args.mask.form == KeepMaskForm::kBits ? (scores.cols + 7) / 8 : scores.cols;
  check(args.mask.row_stride >= mask_cols, ErrorCode::kInvalidArgument,
        "select_24: expected a mask row stride of at least {} bytes, got {}", mask_cols,
        args.mask.row_stride);
  check_pointers("select_24", args.violation, scores.rows == 0 || scores.cols == 0, scores.data,
                 args.mask.data, args.mask.data);
  if (args.stream.on_cuda()) {
    select_24_cuda(args);
  } else {
    select_24_cpu(args);
  }
}

}  // namespace grille::kernels
