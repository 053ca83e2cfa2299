#include "grille/kernels/two_four_checks.h"

#include "grille/base/error.h"
#include "grille/kernels/weight_bits.h"

namespace grille::kernels {

void check_weight(std::string_view op, const ConstMatrixView& dense) {
  check(weight_bits(dense.dtype).magnitude_mask != 0, ErrorCode::kInvalidArgument,
        "{}: expected float32, bfloat16, float16, float8_e4m3fn, float8_e5m2 or int8, got {}", op,
        dtype_name(dense.dtype));
  check(dense.rows >= 0 && dense.cols >= 0 && dense.cols % 4 == 0 && dense.row_stride >= dense.cols,
        ErrorCode::kInvalidArgument,
        "{}: expected [rows, cols] with cols a multiple of 4 and row stride >= cols, got [{}, {}], stride {}",
        op, dense.rows, dense.cols, dense.row_stride);
}

void check_packed_shape(std::string_view op, std::int64_t cols, std::int64_t value_stride,
                        std::int64_t position_stride) {
  check(value_stride >= cols / 2 && position_stride >= (cols + 7) / 8, ErrorCode::kInvalidArgument,
        "{}: {} columns need rows of at least {} values and {} position bytes, got {} and {}", op, cols,
        cols / 2, (cols + 7) / 8, value_stride, position_stride);
}

void check_pointers(std::string_view op, const TwoFourViolation* violation, bool empty, const void* first,
                    const void* second, const void* third) {
  check(violation != nullptr, ErrorCode::kInvalidArgument, "{}: expected a place for the violation, got null",
        op);
  check(empty || (first != nullptr && second != nullptr && third != nullptr), ErrorCode::kInvalidArgument,
        "{}: expected data, got null", op);
}

}  // namespace grille::kernels
