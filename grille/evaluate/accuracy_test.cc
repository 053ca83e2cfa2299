#include "grille/evaluate/accuracy.h"

#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace grille::evaluate {
namespace {

// lm-eval's definition: sqrt(sum (x - mean)^2 / (n - 1)) / sqrt(n) over the questions' 0 and 1.
double stderr_of(const Accuracy& set) {
  const double n = static_cast<double>(set.questions);
  const double mean = static_cast<double>(set.correct) / n;
  double squares = 0.0;
  for (std::int64_t i = 0; i < set.questions; ++i)
    squares += std::pow((i < set.correct ? 1.0 : 0.0) - mean, 2);
  return std::sqrt(squares / (n - 1)) / std::sqrt(n);
}

TEST(Accuracy, OfOneSet) {
  const Accuracy set{45, 135};
  EXPECT_DOUBLE_EQ(set.mean(), 1.0 / 3);
  EXPECT_NEAR(*set.standard_error(), stderr_of(set), 1e-15);
  EXPECT_NEAR(*set.standard_error(), 0.040723, 5e-7);  // lm-eval's, of this model and subject
  EXPECT_FALSE((Accuracy{1, 1}.standard_error()));
  EXPECT_EQ((Accuracy{3, 3}.standard_error()), 0.0);
}

TEST(Accuracy, MeanOfQuestionsPoolsTheVariances) {
  const std::array<Accuracy, 3> sets = {Accuracy{32, 100}, {45, 135}, {27, 152}};
  double sum = 0.0;
  for (const Accuracy& set : sets) {
    const double n = static_cast<double>(set.questions);
    sum += (n - 1) * std::pow(stderr_of(set), 2) * n;
  }
  const Estimate result = mean_of_questions(sets);
  EXPECT_DOUBLE_EQ(result.mean, 104.0 / 387);
  EXPECT_NEAR(*result.standard_error, std::sqrt(sum / (387 - 3) / 387), 1e-15);
  EXPECT_FALSE(mean_of_questions(std::array{Accuracy{1, 1}, Accuracy{0, 1}}).standard_error);
}

TEST(Accuracy, MeanOfSetsWeighsThemAlike) {
  const std::array<Accuracy, 2> sets = {Accuracy{1, 4}, {30, 40}};
  const Estimate result = mean_of_sets(sets);
  EXPECT_DOUBLE_EQ(result.mean, 0.5);
  EXPECT_NEAR(*result.standard_error,
              std::sqrt(std::pow(stderr_of(sets[0]), 2) + std::pow(stderr_of(sets[1]), 2)) / 2, 1e-15);
  EXPECT_FALSE(mean_of_sets(std::array{Accuracy{1, 1}, Accuracy{1, 2}}).standard_error);
}

}  // namespace
}  // namespace grille::evaluate
