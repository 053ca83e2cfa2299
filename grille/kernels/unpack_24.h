// Kept values and their positions -> dense weight with zeros.
#pragma once

#include <cstdint>

#include "grille/base/device.h"
#include "grille/base/matrix_view.h"
#include "grille/kernels/pack_24.h"
#include "grille/kernels/two_four_violation.h"

namespace grille::kernels {

struct ConstPackedTwoFour {
  const void* values = nullptr;             // [rows, value_stride]
  const std::uint8_t* positions = nullptr;  // [rows, position_stride]
  std::int64_t value_stride = 0;
  std::int64_t position_stride = 0;
  TwoFourPositions form = TwoFourPositions::kMetadata;
};

struct Unpack24Args {
  ConstPackedTwoFour packed;              // of a [dense.rows, dense.cols] weight; padding is not read
  MatrixView dense;                       // [rows, cols], cols % 4 == 0; dtypes of pack_24; no alias
  TwoFourViolation* violation = nullptr;  // on the stream's device; always written
  Stream stream;
};

// Values are copied bit for bit. A position nibble that does not name two columns (metadata: two ascending
// indices; bitmask: exactly two bits) makes its group a violation, and the group's weights are 0.
// Cost, stream and errors as pack_24. See check_unpacked() for the message.
void unpack_24(const Unpack24Args& args);

// The definition, as a slow loop: the tests' oracle. CPU only.
void unpack_24_reference(const Unpack24Args& args);

}  // namespace grille::kernels
