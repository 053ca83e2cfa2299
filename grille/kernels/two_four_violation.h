// The first group of a matrix that an op on 2:4 weights refuses.
#pragma once

#include <cstdint>
#include <string_view>

#include "grille/base/dtype.h"

namespace grille::kernels {

// Written by pack_24, unpack_24 and select_24 on the device that they run on, so that no call has to wait
// for a GPU; the caller looks once, when the result is needed. "First" is the lowest row, then group.
struct TwoFourViolation {
  std::int64_t row = -1;  // -1: none
  std::int64_t group = -1;
  std::uint32_t nibble = 0;        // pack: bit j = column j is not zero. unpack: the stored position nibble
  float values[4] = {0, 0, 0, 0};  // pack: the group's weights. select: its first four scores

  bool found() const { return row >= 0; }
};

// Throws Error{kCorruptData} if `violation` was found: "<name>: row 3, group 7: ..." with what was seen.
// `name` is the module or tensor.
void check_packed(const TwoFourViolation& violation, std::string_view name);
void check_unpacked(const TwoFourViolation& violation, std::string_view name);
void check_selected(const TwoFourViolation& violation, std::string_view name);

}  // namespace grille::kernels
