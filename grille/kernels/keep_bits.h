// The choice of the columns to keep in one group: what CPU and CUDA kernels of select_24 share.
#pragma once

#include <cstdint>

namespace grille::kernels {

// Bit j: score j is among the `keep` highest of scores[0, group); of equal ones the higher column wins.
// A NaN gives 0. kGroup > 0 fixes the group size at compile time, so that loops unroll.
template <int kGroup>
constexpr std::uint32_t keep_bits(const float* scores, int keep, int group) {
  const int size = kGroup > 0 ? kGroup : group;
  std::uint32_t bits = 0;
  bool number = true;
  for (int j = 0; j < size; ++j) {
    int above = 0;  // scores that are kept before score j
    for (int i = 0; i < size; ++i) above += i > j ? scores[i] >= scores[j] : scores[i] > scores[j];
    number = number && scores[j] == scores[j];
    bits |= static_cast<std::uint32_t>(above < keep) << j;
  }
  return number ? bits : 0u;
}

}  // namespace grille::kernels
