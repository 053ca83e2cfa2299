#include "grille/prune/admm.h"

#include <ATen/ops/eye.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/prune/alps.h"
#include "grille/prune/scores.h"
#include "grille/prune/sparsegpt.h"
#include "grille/prune/statistics.h"

namespace grille::prune {
namespace {

// What both methods promise; tests/test_pruning_ladder.py holds them to their definitions.
enum class Which { kAdmm, kAlps };

at::Tensor prune(Which which, const at::Tensor& weight, const at::Tensor& hessian, const Pattern& pattern) {
  return which == Which::kAdmm ? admm(weight, hessian, pattern, {}) : alps(weight, hessian, pattern, {});
}

Pattern groups(std::int64_t keep, std::int64_t group) {
  return {Pattern::Kind::kGroups, keep, group, 1.0 - static_cast<double>(keep) / static_cast<double>(group)};
}

at::Tensor random_hessian(std::int64_t cols) {
  InputStatistics statistics(cols);
  statistics.add(at::mm(at::randn({3 * cols, cols}), at::randn({cols, cols})));
  return statistics.hessian();
}

class Multipliers : public testing::TestWithParam<Which> {};

TEST_P(Multipliers, KeepThePattern) {
  for (const auto& [keep, group] : {std::pair<int, int>{2, 4}, {1, 3}, {4, 8}}) {
    const at::Tensor pruned = prune(GetParam(), at::randn({7, 48}), random_hessian(48), groups(keep, group));
    EXPECT_TRUE(pruned.ne(0).view({7, -1, group}).sum(2).eq(keep).all().item<bool>()) << keep << ":" << group;
  }
  const Pattern unstructured{Pattern::Kind::kUnstructured, 0, 0, 0.7};
  const at::Tensor pruned = prune(GetParam(), at::randn({10, 30}), random_hessian(30), unstructured);
  EXPECT_EQ(pruned.eq(0).sum().item<std::int64_t>(), 211);  // floor(300 * 0.7) and the threshold itself
}

TEST_P(Multipliers, LeaveLessErrorThanSparseGpt) {
  const at::Tensor weight = at::randn({32, 64});
  const at::Tensor hessian = random_hessian(64);
  const Pattern pattern = groups(2, 4);
  const double swept = relative_error(weight, sparsegpt(weight, hessian, pattern, {}).weight, hessian);
  EXPECT_LT(relative_error(weight, prune(GetParam(), weight, hessian, pattern), hessian), swept);
}

TEST_P(Multipliers, OnIndependentInputsAreWandaWithItsWeights) {
  // Scores that are kept are from 2 to 3 and the others below 1: damping moves scores that are close past
  // each other.
  const at::Tensor squares = at::randn({16}).square().add_(0.1);
  const at::Tensor uniform = at::rand({6, 16});
  const at::Tensor keep = keep_mask(uniform, groups(2, 4), Scope::kRow);
  const at::Tensor weight = at::where(keep, uniform.add(2.0), uniform).div(squares.sqrt());
  ASSERT_TRUE(keep_mask(wanda_scores(weight, squares), groups(2, 4), Scope::kRow).equal(keep));
  const at::Tensor pruned = prune(GetParam(), weight, squares.diag(), groups(2, 4));
  EXPECT_TRUE(pruned.ne(0).eq(keep).all().item<bool>());
  // ADMM goes to them by a factor of 2 an iteration: five with the last mask leave 2^-5 of what the first
  // ones moved.
  EXPECT_LT(pruned.div(weight).sub(keep.to(at::kFloat)).abs().max().item<double>(), 0.1);
}

TEST_P(Multipliers, ZeroDeadColumnsAndStayFinite) {
  at::Tensor hessian = random_hessian(16);
  hessian.select(0, 6).zero_();
  hessian.select(1, 6).zero_();
  const at::Tensor pruned = prune(GetParam(), at::randn({5, 16}), hessian, groups(2, 4));
  EXPECT_TRUE(pruned.select(1, 6).eq(0).all().item<bool>());
  EXPECT_TRUE(pruned.isfinite().all().item<bool>());
}

TEST_P(Multipliers, RefuseRaggedGroups) {
  EXPECT_THROW(prune(GetParam(), at::zeros({2, 6}), at::eye(6), groups(2, 4)), Error);
}

INSTANTIATE_TEST_SUITE_P(Methods, Multipliers, testing::Values(Which::kAdmm, Which::kAlps));

}  // namespace
}  // namespace grille::prune
