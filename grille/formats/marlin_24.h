// Where the parts of a `marlin-24` weight lie: 2:4 integers of 4 or 8 bits, in the order in which the
// Marlin-24 GPU kernel of vLLM up to 0.14 read them. Only index arithmetic; a [R, C] weight with R % 64 == 0
// and C % 32 == 0.
#pragma once

#include <array>
#include <cstdint>

namespace grille::formats {

constexpr std::int64_t kMarlin24RowMultiple = 64;
constexpr std::int64_t kMarlin24ColMultiple = 32;
constexpr std::int64_t kMarlin24Group = 128;  // columns that share a scale, where not all do
constexpr std::int64_t kMarlin24Tile = 16;    // kept values (of a row's C / 2) in one row of the packed words

// The packed words are [C / 32, R * 16] values of `bits` bits, the first of a word lowest. Of 1024
// consecutive values (64 rows of the weight, 16 kept values of each), value p is order[p] = 256 (r / 16) + 16
// k + r % 16: kept value k of row r.
using Marlin24Order = std::array<std::int16_t, 1024>;
const Marlin24Order& marlin_24_order(int bits);

// The metadata are int16, four groups each, a group's two ascending 2-bit columns as in TwoFourView, the
// first group lowest: [R, C / 16], of which element (row, col) lies at this place of the stored [C / 32, 2
// R].
std::int64_t marlin_24_metadata_place(std::int64_t rows, std::int64_t row, std::int64_t col);

// Scales are [C / group, R]; the scale of row r lies in column marlin_24_scale_column(r) where C / 2 > group,
// in column r elsewhere.
std::int64_t marlin_24_scale_column(std::int64_t row);

}  // namespace grille::formats
