#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "grille/kernels/select_24.h"

namespace grille::kernels {

void select_24_reference(const Select24Args& args) {
  const ConstMatrixView& scores = args.scores;
  *args.violation = {};
  for (std::int64_t i = 0; i < scores.rows; ++i) {
    const float* row = reinterpret_cast<const float*>(scores.row(i));
    std::uint8_t* mask = args.mask.data + i * args.mask.row_stride;
    const bool as_bits = args.mask.form == KeepMaskForm::kBits;
    std::fill_n(mask, as_bits ? (scores.cols + 7) / 8 : scores.cols, std::uint8_t{0});
    for (std::int64_t group = 0; group < scores.cols / args.group; ++group) {
      const float* s = row + group * args.group;
      if (std::any_of(s, s + args.group, [](float score) { return std::isnan(score); })) {
        if (!args.violation->found()) {
          *args.violation = {i, group};
          std::copy_n(s, std::min(args.group, 4), args.violation->values);
        }
        continue;
      }
      std::vector<int> order(static_cast<std::size_t>(args.group));  // first pruned first
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [s](int a, int b) { return s[a] < s[b]; });
      for (std::size_t k = order.size() - static_cast<std::size_t>(args.keep); k < order.size(); ++k) {
        const std::int64_t column = group * args.group + order[k];
        if (as_bits) {
          mask[column / 8] = static_cast<std::uint8_t>(mask[column / 8] | (1u << (column % 8)));
        } else {
          mask[column] = 1;
        }
      }
    }
  }
}

}  // namespace grille::kernels
