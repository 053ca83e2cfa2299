// Inputs for the tests of select_24, on the CPU and on CUDA devices.
#pragma once

#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "grille/kernels/select_24.h"

namespace grille::kernels::testing {

struct SelectCase {
  std::int64_t rows;
  std::int64_t groups;
  int keep;
  int group;
  KeepMaskForm form;

  std::int64_t cols() const { return groups * group; }
  std::int64_t score_stride() const { return cols() + 3; }
  std::int64_t mask_stride() const { return form == KeepMaskForm::kBits ? (cols() + 7) / 8 + 1 : cols() + 1; }
};

inline std::vector<SelectCase> select_cases() {
  std::vector<SelectCase> cases;
  for (KeepMaskForm form : {KeepMaskForm::kBytes, KeepMaskForm::kBits}) {
    for (const auto& [keep, group] :
         {std::pair{2, 4}, {1, 4}, {4, 4}, {4, 8}, {1, 1}, {3, 5}, {7, 16}, {31, 32}}) {
      cases.push_back({1, 1, keep, group, form});
      cases.push_back({67, 131, keep, group, form});
    }
  }
  return cases;
}

// Few different scores, so that ties are common; both infinities and both zeros.
inline std::vector<float> tied_scores(const SelectCase& c, unsigned seed) {
  std::mt19937 random(seed);
  constexpr float kScores[] = {0.0f,
                               -0.0f,
                               1.0f,
                               2.0f,
                               0.5f,
                               -1.0f,
                               3e38f,
                               1e-40f,
                               static_cast<float>(INFINITY),
                               static_cast<float>(-INFINITY)};
  std::vector<float> scores(static_cast<std::size_t>(c.rows * c.score_stride()));
  for (float& score : scores) score = kScores[random() % std::size(kScores)];
  return scores;
}

inline Select24Args select_args(const SelectCase& c, const float* scores, std::uint8_t* mask,
                                TwoFourViolation* violation, Stream stream = {}) {
  return {.scores = {scores, DType::kFloat32, c.rows, c.cols(), c.score_stride()},
          .keep = c.keep,
          .group = c.group,
          .mask = {mask, c.mask_stride(), c.form},
          .violation = violation,
          .stream = stream};
}

}  // namespace grille::kernels::testing
