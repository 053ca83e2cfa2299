#include "grille/formats/marlin_24.h"

namespace grille::formats {
namespace {

// A warp's 32 threads hold fragments of four 16 x 16 tiles (8 columns and 2 halves of each); within a word,
// values are interleaved so that the kernel widens neighbours with one mask.
Marlin24Order make_order(int bits) {
  constexpr std::array<int, 8> kOf4 = {0, 2, 4, 6, 1, 3, 5, 7};
  constexpr std::array<int, 4> kOf8 = {0, 2, 1, 3};
  std::array<std::int16_t, 1024> plain{};
  std::size_t next = 0;
  for (int thread = 0; thread < 32; ++thread) {
    const int column = thread / 4;
    for (int tile = 0; tile < 4; ++tile) {
      for (int block = 0; block < 2; ++block) {
        const int first = 2 * (thread % 4);
        for (const int row : {first, first + 1, first + 8, first + 9}) {
          plain[next++] =
              static_cast<std::int16_t>(16 * row + column / 2 * 256 + 8 * (column % 2) + 4 * block + tile);
        }
      }
    }
  }
  Marlin24Order order{};
  const std::size_t width = bits == 4 ? 8 : 4;
  for (std::size_t p = 0; p < order.size(); ++p) {
    const auto place = static_cast<std::size_t>(bits == 4 ? kOf4[p % width] : kOf8[p % width]);
    order[p] = plain[p / width * width + place];
  }
  return order;
}

}  // namespace

const Marlin24Order& marlin_24_order(int bits) {
  static const Marlin24Order of_4 = make_order(4);
  static const Marlin24Order of_8 = make_order(8);
  return bits == 4 ? of_4 : of_8;
}

// CUTLASS's order of sparse metadata: rows in tiles of 64, blocks of 2 x 2 with two corners exchanged, pairs
// of columns interleaved.
std::int64_t marlin_24_metadata_place(std::int64_t rows, std::int64_t row, std::int64_t col) {
  std::int64_t to_row = row / 64 * 64 + row % 2 * 2 + row % 8 / 4 + row % 4 / 2 * 32 + row % 64 / 8 * 4;
  std::int64_t to_col = col;
  if (to_row % 2 == 0 && col % 2 == 1) {
    ++to_row;
    --to_col;
  } else if (to_row % 2 == 1 && col % 2 == 0) {
    --to_row;
    ++to_col;
  }
  return to_col / 2 * rows * 2 + to_row * 2 + to_col % 2;
}

// Stored column i of 8 holds row 0, 4, 1, 5, 2, 6, 3, 7.
std::int64_t marlin_24_scale_column(std::int64_t row) {
  const std::int64_t in_eight = row % 8;
  return row - in_eight + (in_eight < 4 ? 2 * in_eight : 2 * (in_eight - 4) + 1);
}

}  // namespace grille::formats
