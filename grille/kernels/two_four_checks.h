// What pack_24, unpack_24 and select_24 ask of their arguments alike. All throw Error{kInvalidArgument}.
#pragma once

#include <cstdint>
#include <string_view>

#include "grille/base/matrix_view.h"
#include "grille/kernels/two_four_violation.h"

namespace grille::kernels {

// A [rows, cols] weight with cols % 4 == 0 of a dtype that 2:4 weights come in.
void check_weight(std::string_view op, const ConstMatrixView& dense);

void check_packed_shape(std::string_view op, std::int64_t cols, std::int64_t value_stride,
                        std::int64_t position_stride);

// The matrices' data may be null only if there is nothing in them.
void check_pointers(std::string_view op, const TwoFourViolation* violation, bool empty, const void* first,
                    const void* second, const void* third);

}  // namespace grille::kernels
