#include "grille/prune/refine.h"

#include <ATen/ops/eye.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/prune/scores.h"
#include "grille/prune/statistics.h"

namespace grille::prune {
namespace {

Pattern groups(std::int64_t keep, std::int64_t group) {
  return {Pattern::Kind::kGroups, keep, group, 1.0 - static_cast<double>(keep) / static_cast<double>(group)};
}

struct Problem {
  at::Tensor weight, hessian, pruned;
};

Problem random_problem(std::int64_t rows, std::int64_t cols, const Pattern& pattern) {
  InputStatistics statistics(cols);
  statistics.add(at::mm(at::randn({3 * cols, cols}), at::randn({cols, cols})));
  Problem problem{at::randn({rows, cols}), statistics.hessian(), {}};
  const at::Tensor scores = wanda_scores(problem.weight, statistics.mean_squares());
  problem.pruned = problem.weight.mul(keep_mask(scores, pattern, Scope::kRow));
  return problem;
}

double row_error(const at::Tensor& dense, const at::Tensor& weight, const at::Tensor& hessian,
                 std::int64_t row) {
  const at::Tensor d = dense[row].sub(weight[row]).to(at::kDouble).unsqueeze(0);
  return at::mm(d, hessian).mul_(d).sum().item<double>();
}

// The lowest error that exchanging one kept and one pruned weight of `row` within a group gives, the others
// as they are; every pair is tried on a copy.
double best_swap(const Problem& problem, const at::Tensor& weight, std::int64_t row, std::int64_t group) {
  double best = INFINITY;
  const std::int64_t cols = weight.size(1);
  for (std::int64_t u = 0; u < cols; ++u) {
    for (std::int64_t p = u / group * group; p < (u / group + 1) * group; ++p) {
      if (weight[row][u].item<float>() == 0 || weight[row][p].item<float>() != 0) continue;
      at::Tensor swapped = weight.clone();
      swapped[row][u] = 0;
      swapped[row][p] = problem.weight[row][p];
      best = std::min(best, row_error(problem.weight, swapped, problem.hessian, row));
    }
  }
  return best;
}

TEST(Refine, LeavesNoSwapThatLowersTheError) {
  for (const auto& [keep, group] : {std::pair<int, int>{2, 4}, {1, 3}, {4, 8}}) {
    const Problem problem = random_problem(5, 24, groups(keep, group));
    const RefineResult result =
        refine(problem.weight, problem.pruned, problem.hessian, groups(keep, group), {});
    EXPECT_GT(result.swaps, 0);
    const at::Tensor kept = result.weight.ne(0);
    EXPECT_TRUE(kept.view({5, -1, group}).sum(2).eq(keep).all().item<bool>());
    EXPECT_TRUE(result.weight.eq(problem.weight.mul(kept)).all().item<bool>());  // bit for bit
    for (std::int64_t row = 0; row < 5; ++row) {
      const double error = row_error(problem.weight, result.weight, problem.hessian, row);
      EXPECT_LE(error, row_error(problem.weight, problem.pruned, problem.hessian, row));
      EXPECT_GE(best_swap(problem, result.weight, row, group), error * (1 - 1e-9)) << row;
    }
  }
}

TEST(Refine, UpdatedWeightsLeaveLessErrorThanAnyMaskOfDenseOnes) {
  const Pattern pattern = groups(2, 4);
  const Problem problem = random_problem(16, 64, pattern);
  const auto error = [&](const at::Tensor& weight) {
    return relative_error(problem.weight, weight, problem.hessian);
  };
  const at::Tensor masked = refine(problem.weight, problem.pruned, problem.hessian, pattern, {}).weight;
  RefineOptions options;
  options.update_weights = true;
  options.rounds = 0;  // the weights of Wanda's mask, no swap
  options.solver_iterations = 200;
  const at::Tensor solved = refine(problem.weight, problem.pruned, problem.hessian, pattern, options).weight;
  const RefineResult result = refine(problem.weight, problem.pruned, problem.hessian, pattern,
                                     {.update_weights = true, .damping = 0.01});
  EXPECT_GT(result.swaps, 0);
  EXPECT_TRUE(result.weight.ne(0).view({16, -1, 4}).sum(2).eq(2).all().item<bool>());
  EXPECT_LT(error(masked), error(problem.pruned));
  EXPECT_LT(error(solved), error(masked));
  EXPECT_LT(error(result.weight), error(solved));
}

TEST(Refine, ChangesNothingWhereInputsAreIndependentAndTheMaskIsTheBest) {
  const Pattern pattern = groups(2, 4);
  Problem problem = random_problem(6, 16, pattern);
  problem.hessian = at::eye(16, at::kDouble);
  problem.pruned = problem.weight.mul(keep_mask(magnitude_scores(problem.weight), pattern, Scope::kRow));
  for (const bool update : {false, true}) {
    const RefineResult result = refine(problem.weight, problem.pruned, problem.hessian, pattern,
                                       {.update_weights = update, .damping = 0.01});
    EXPECT_EQ(result.swaps, 0);
    EXPECT_TRUE(result.weight.equal(problem.pruned)) << update;
  }
}

TEST(Refine, RefusesUnstructuredAndRaggedGroups) {
  const at::Tensor weight = at::randn({2, 6});
  EXPECT_THROW(refine(weight, weight, at::eye(6), {Pattern::Kind::kUnstructured, 0, 0, 0.5}, {}), Error);
  EXPECT_THROW(refine(weight, weight, at::eye(6), groups(2, 4), {}), Error);
}

}  // namespace
}  // namespace grille::prune
