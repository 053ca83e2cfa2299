#include "grille/kernels/cpu/select_24.h"

#include <algorithm>
#include <cstring>

#include "grille/base/parallel.h"
#include "grille/kernels/cpu/first_group.h"
#include "grille/kernels/keep_bits.h"

namespace grille::kernels {
namespace {

constexpr std::int64_t kGrainScores = 1 << 14;

void store_bits(std::uint8_t* row, std::int64_t column, int group, std::uint32_t bits) {
  for (int j = 0; j < group; ++j) {
    const std::int64_t k = column + j;
    row[k / 8] = static_cast<std::uint8_t>(row[k / 8] | (((bits >> j) & 1u) << (k % 8)));
  }
}

void store_bytes(std::uint8_t* row, std::int64_t column, int group, std::uint32_t bits) {
  for (int j = 0; j < group; ++j) row[column + j] = static_cast<std::uint8_t>((bits >> j) & 1u);
}

// Returns the first group with a NaN, or -1.
template <int kGroup>
std::int64_t select_row(const float* scores, const Select24Args& args, std::uint8_t* mask) {
  const std::int64_t groups = args.scores.cols / args.group;
  const bool as_bits = args.mask.form == KeepMaskForm::kBits;
  if (as_bits) std::memset(mask, 0, static_cast<std::size_t>((args.scores.cols + 7) / 8));
  std::int64_t first = -1;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t column = g * args.group;
    const std::uint32_t bits = keep_bits<kGroup>(scores + column, args.keep, args.group);
    if (bits == 0 && first < 0) first = g;
    if (as_bits) {
      store_bits(mask, column, kGroup > 0 ? kGroup : args.group, bits);
    } else {
      store_bytes(mask, column, kGroup > 0 ? kGroup : args.group, bits);
    }
  }
  return first;
}

template <int kGroup>
void select_rows(const Select24Args& args) {
  const ConstMatrixView& scores = args.scores;
  const std::int64_t groups = scores.cols / args.group;
  FirstGroup first;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainScores / std::max<std::int64_t>(scores.cols, 1));
  parallel_for(scores.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* row = reinterpret_cast<const float*>(scores.row(i));
      const std::int64_t group = select_row<kGroup>(row, args, args.mask.data + i * args.mask.row_stride);
      if (group >= 0) first.add(i * groups + group);
    }
  });
  *args.violation = {};
  if (!first.found()) return;
  args.violation->row = first.index() / groups;
  args.violation->group = first.index() % groups;
  const float* row = reinterpret_cast<const float*>(scores.row(args.violation->row));
  std::copy_n(row + args.violation->group * args.group, std::min(args.group, 4), args.violation->values);
}

}  // namespace

void select_24_cpu(const Select24Args& args) {
  switch (args.group) {
    case 4: return select_rows<4>(args);
    case 8: return select_rows<8>(args);
    default: return select_rows<0>(args);
  }
}

}  // namespace grille::kernels
