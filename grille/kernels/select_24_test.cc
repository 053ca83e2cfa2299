#include "grille/kernels/select_24.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/kernels/select_24_cases.h"

namespace grille::kernels {
namespace {

using testing::SelectCase;

TEST(Select24, PrunesTheLowerColumnOfEqualScoresFirst) {
  const std::vector<float> scores = {1, 1, 1, 1, 2, 1, 1, 0, 0.0f, -0.0f, -1, -1, 5, 0, 5, 5};
  const SelectCase c{1, 4, 2, 4, KeepMaskForm::kBytes};
  std::vector<float> padded = scores;
  padded.resize(19);
  std::vector<std::uint8_t> mask(17, 9);
  TwoFourViolation violation;
  select_24(testing::select_args(c, padded.data(), mask.data(), &violation));
  EXPECT_FALSE(violation.found());
  EXPECT_EQ(mask, (std::vector<std::uint8_t>{0, 0, 1, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 9}));
}

TEST(Select24, ReportsTheFirstNan) {
  for (KeepMaskForm form : {KeepMaskForm::kBytes, KeepMaskForm::kBits}) {
    const SelectCase c{40, 64, 4, 8, form};
    std::vector<float> scores = testing::tied_scores(c, 3);
    for (std::int64_t i :
         {39 * c.score_stride() + 1, 17 * c.score_stride() + 100, 17 * c.score_stride() + 101}) {
      scores[static_cast<std::size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
    }
    std::vector<std::uint8_t> mask(static_cast<std::size_t>(c.rows * c.mask_stride()));
    TwoFourViolation violation;
    select_24(testing::select_args(c, scores.data(), mask.data(), &violation));
    EXPECT_EQ(violation.row, 17);
    EXPECT_EQ(violation.group, 12);
    EXPECT_THROW(check_selected(violation, "scores"), Error);
  }
}

TEST(Select24, RefusesBadArguments) {
  std::vector<float> scores(64);
  std::vector<std::uint8_t> mask(64);
  TwoFourViolation violation;
  const Select24Args good{.scores = {scores.data(), DType::kFloat32, 2, 32, 32},
                          .mask = {mask.data(), 32, KeepMaskForm::kBytes},
                          .violation = &violation,
                          .stream = {}};
  EXPECT_NO_THROW(select_24(good));
  const auto refused = [&](auto change) {
    Select24Args args = good;
    change(args);
    EXPECT_THROW(select_24(args), Error);
  };
  refused([](Select24Args& a) { a.scores.dtype = DType::kBFloat16; });
  refused([](Select24Args& a) { a.scores.cols = 30; });
  refused([](Select24Args& a) { a.keep = 0; });
  refused([](Select24Args& a) { a.keep = 5; });
  refused([](Select24Args& a) { a.group = 33; });
  refused([](Select24Args& a) { a.group = 0; });
  refused([](Select24Args& a) { a.mask.row_stride = 31; });
  refused([](Select24Args& a) { a.mask.data = nullptr; });
}

class Select24Cases : public ::testing::TestWithParam<SelectCase> {};

TEST_P(Select24Cases, AgreeWithTheReference) {
  const SelectCase& c = GetParam();
  const std::vector<float> scores = testing::tied_scores(c, 4);
  const auto select = [&](auto function) {
    std::vector<std::uint8_t> mask(static_cast<std::size_t>(c.rows * c.mask_stride()), 0xa5);
    TwoFourViolation violation;
    function(testing::select_args(c, scores.data(), mask.data(), &violation));
    EXPECT_FALSE(violation.found());
    return mask;
  };
  EXPECT_EQ(select(select_24), select(select_24_reference));
}

INSTANTIATE_TEST_SUITE_P(All, Select24Cases, ::testing::ValuesIn(testing::select_cases()));

}  // namespace
}  // namespace grille::kernels
