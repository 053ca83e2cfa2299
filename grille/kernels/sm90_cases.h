// Inputs for the tests of pack_24_sm90, on the CPU and on CUDA devices.
#pragma once

#include <ostream>
#include <vector>

#include "grille/kernels/pack_24_sm90.h"
#include "grille/kernels/two_four_cases.h"

namespace grille::kernels::testing {

// Weights of every dtype and form; rows that begin anywhere, rows of 16-byte and of odd length.
inline std::vector<TwoFourCase> sm90_cases() {
  std::vector<TwoFourCase> cases;
  for (DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3, DType::kInt8}) {
    for (auto [rows, cols] :
         {std::pair<int, int>{1, 4}, {5, 12}, {130, 260}, {128, 512}, {257, 1028}, {300, 2304}}) {
      cases.push_back({dtype, rows, cols, 0, 0, 0, TwoFourPositions::kMetadata});
      cases.push_back({dtype, rows, cols, 0, 0, 0, TwoFourPositions::kBitmask});
      cases.push_back({dtype, rows, cols, 0, 6, 3, TwoFourPositions::kBitmask});
    }
  }
  return cases;
}

// A packed weight of the case; `values` and `positions` may lie on a device.
inline Pack24Sm90Args sm90_args(const TwoFourCase& c, const void* values, const std::uint8_t* positions,
                                void* slabs, TwoFourViolation* violation, Stream stream = {}) {
  Pack24Sm90Args args;
  if (c.form == TwoFourPositions::kMetadata) {
    args.weight = formats::TwoFourView{values, positions, c.dtype, c.rows, c.cols};
  } else {
    args.weight = formats::TwoFourBitmaskView{values,           positions,          c.dtype, c.rows, c.cols,
                                              c.value_stride(), c.position_stride()};
  }
  args.slabs = slabs;
  args.violation = violation;
  args.stream = stream;
  return args;
}

inline std::size_t sm90_bytes(const TwoFourCase& c) {
  return static_cast<std::size_t>(
      formats::TwoFourSm90Layout{c.rows, c.cols, static_cast<int>(c.size())}.bytes());
}

// The case's random weight, packed by pack_24_reference.
inline PackedBytes packed_weight(const TwoFourCase& c, unsigned seed) {
  PackedBytes packed(c);
  TwoFourViolation violation;
  const std::vector<std::uint8_t> dense = random_dense(c, seed);
  pack_24_reference({.dense = dense_view(c, static_cast<const void*>(dense.data())),
                     .packed = packed_view(c, packed.values.data(), packed.positions.data()),
                     .violation = &violation,
                     .stream = {}});
  return packed;
}

}  // namespace grille::kernels::testing
