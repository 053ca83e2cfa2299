// How pack_24, unpack_24 and select_24 are launched on a CUDA device. Pure arithmetic: no device needed.
#pragma once

#include <cstdint>
#include <string>

#include "grille/base/device.h"
#include "grille/base/matrix_view.h"
#include "grille/kernels/pack_24.h"
#include "grille/kernels/unpack_24.h"

namespace grille::kernels {

// A thread turns one unit at a time; blocks stride over the units of all rows. A unit is 8 columns, the two
// groups of a position byte.
struct Pack24Plan {
  std::int64_t units_per_row = 0;
  int threads = 256;           // of a block
  std::int64_t blocks = 0;     // 0: nothing to do
  bool vector_dense = false;   // a unit's 8 dense weights move as vectors of up to 16 bytes
  bool vector_values = false;  // a unit's 4 kept values move as one vector

  bool operator==(const Pack24Plan&) const = default;
};

// Vectors are used where every row starts at a multiple of their size. pack_24 has units for padding too,
// which it writes; unpack_24 does not read it.
Pack24Plan plan_pack_24(const ConstMatrixView& dense, const PackedTwoFour& packed, const DeviceCaps& caps);
Pack24Plan plan_unpack_24(const ConstMatrixView& dense, const ConstPackedTwoFour& packed,
                          const DeviceCaps& caps);

// The launch shape alone, for units of any kind.
Pack24Plan plan_units(std::int64_t rows, std::int64_t units_per_row, const DeviceCaps& caps);

// "512 units a row, 256 threads x 1056 blocks, dense vector, values scalar"
std::string to_string(const Pack24Plan& plan);

}  // namespace grille::kernels
