// Dense 2:4 weight -> kept values and their positions.
#pragma once

#include <cstdint>

#include "grille/base/device.h"
#include "grille/base/matrix_view.h"
#include "grille/formats/two_four.h"
#include "grille/kernels/two_four_violation.h"

namespace grille::kernels {

enum class TwoFourPositions : std::uint8_t {
  kMetadata,  // as in formats::TwoFourView
  kBitmask,   // as in formats::TwoFourBitmaskView
};

// Where a packed [rows, cols] weight is written. The whole of every row is written: values past cols / 2
// are 0; position nibbles past cols / 4 are "columns 0 and 1", except that a bitmask nibble for whose
// values the row has no room is 0. So value_stride = cols / 2 and position_stride = ceil(cols / 8) give the
// canonical form (metadata) or compressed-tensors' (bitmask).
struct PackedTwoFour {
  void* values = nullptr;             // [rows, value_stride], dtype of the dense weight
  std::uint8_t* positions = nullptr;  // [rows, position_stride]
  std::int64_t value_stride = 0;      // in elements, >= cols / 2
  std::int64_t position_stride = 0;   // in bytes, >= ceil(cols / 8)
  TwoFourPositions form = TwoFourPositions::kMetadata;
};

struct Pack24Args {
  // [rows, cols], cols % 4 == 0, float32, bfloat16, float16, float8_e4m3fn, float8_e5m2 or int8.
  ConstMatrixView dense;
  PackedTwoFour packed;                   // must not alias `dense`
  TwoFourViolation* violation = nullptr;  // on the stream's device; always written
  Stream stream;
};

// -0.0 counts as zero and zeros are stored as +0. A group with fewer than two non-zeros keeps the lowest
// free columns too. A third non-zero, a NaN or an infinity in a group makes it a violation, and what is
// packed then is unspecified. See check_packed() for the message.
// Cost: reads the weight once. CPU: OpenMP threads. CUDA: enqueues on the stream, no host
// synchronisation, no allocation, capturable.
// Throws Error{kInvalidArgument} on a shape, stride, dtype or null pointer, Error{kUnsupported} for a CUDA
// stream in a build without CUDA, Error{kDevice} if a launch fails.
void pack_24(const Pack24Args& args);

// The definition, as a slow loop: the tests' oracle. CPU only.
void pack_24_reference(const Pack24Args& args);

}  // namespace grille::kernels
