// 2:4 weight in canonical or bitmask form -> TwoFourSm90, the packing of Hopper's matmul.
#pragma once

#include <string_view>
#include <variant>

#include "grille/base/device.h"
#include "grille/formats/two_four_sm90.h"
#include "grille/kernels/two_four_violation.h"

namespace grille::kernels {

struct Pack24Sm90Args {
  // [rows, cols] of bfloat16, float16, float8_e4m3fn or int8.
  std::variant<formats::TwoFourView, formats::TwoFourBitmaskView> weight;
  void* slabs = nullptr;  // TwoFourSm90Layout::bytes(), 16-byte aligned; must not alias the weight
  TwoFourViolation* violation = nullptr;  // on the stream's device; always written
  Stream stream;
};

// As formats::pack_sm90, byte for byte. A group whose positions do not name two columns, or with a kept value
// that is a NaN or an infinity, is a violation: its stored nibble and its two kept values. What is packed
// then is unspecified. Cost: reads and writes the weight once, without expanding it. CPU: formats::pack_sm90.
// CUDA: any device; enqueues on the stream, no host synchronisation, no allocation, capturable. Throws
// Error{kInvalidArgument} on a dtype, shape, stride, alignment or null pointer, Error{kUnsupported} for a
// CUDA stream in a build without CUDA, Error{kDevice} if a launch fails.
void pack_24_sm90(const Pack24Sm90Args& args);

// Throws Error{kCorruptData} if a violation was found: "<name>: row 3, group 7: ..." with what was seen.
void check_packed_sm90(const TwoFourViolation& violation, std::string_view name);

}  // namespace grille::kernels
