#include "grille/prune/sparsegpt.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_inv.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/prune/scores.h"
#include "grille/prune/statistics.h"

namespace grille::prune {
namespace {

// The optimal-brain-surgeon sweep from its definition, in fp64 with a fresh inverse for every column:
// with the columns before i fixed, removing w_i costs w_i^2 / (2 G_00) and the best answer of the others is
// w -= w_i / G_00 * G_0, G = inverse(H[i:, i:]).
at::Tensor definition(const at::Tensor& weight, const at::Tensor& damped, std::int64_t keep,
                      std::int64_t group) {
  at::Tensor w = weight.to(at::kDouble).clone();
  const at::Tensor h = damped.to(at::kDouble);
  const std::int64_t cols = w.size(1);
  at::Tensor mask;
  for (std::int64_t i = 0; i < cols; ++i) {
    if (i % group == 0) {
      at::Tensor scores = at::zeros({w.size(0), group}, at::kDouble);
      for (std::int64_t j = 0; j < group; ++j) {
        const std::int64_t column = i + j;
        const at::Tensor rest = h.narrow(0, column, cols - column).narrow(1, column, cols - column);
        scores.select(1, j).copy_(w.select(1, column).square().div(at::linalg_inv(rest)[0][0]));
      }
      const auto [top, index] = scores.topk(keep, 1);
      mask = at::zeros({w.size(0), group}, at::kDouble).scatter_(1, index, 1.0);
    }
    const at::Tensor rest = h.narrow(0, i, cols - i).narrow(1, i, cols - i);
    const at::Tensor inverse = at::linalg_inv(rest);
    const at::Tensor error = w.select(1, i).mul(mask.select(1, i % group).eq(0)).div(inverse[0][0]);
    w.narrow(1, i, cols - i).sub_(error.unsqueeze(1).mul(inverse[0].unsqueeze(0)));
    w.select(1, i).mul_(mask.select(1, i % group));
  }
  return w;
}

struct Problem {
  at::Tensor weight;
  at::Tensor hessian;
  at::Tensor damped;
};

Problem random_problem(std::int64_t rows, std::int64_t cols) {
  InputStatistics statistics(cols);
  statistics.add(at::mm(at::randn({3 * cols, cols}), at::randn({cols, cols})));
  Problem problem{at::randn({rows, cols}), statistics.hessian(), {}};
  problem.damped = problem.hessian.add(at::eye(cols).mul(problem.hessian.diagonal().mean()).mul(0.01));
  return problem;
}

Pattern groups(std::int64_t keep, std::int64_t group) {
  return {Pattern::Kind::kGroups, keep, group, 1.0 - static_cast<double>(keep) / static_cast<double>(group)};
}

TEST(SparseGpt, MatchesItsDefinition) {
  for (const auto& [keep, group] : {std::pair<int, int>{2, 4}, {4, 8}, {1, 3}}) {
    const Problem problem = random_problem(9, 48);
    const at::Tensor expected = definition(problem.weight, problem.damped, keep, group);
    // Blocks of 12 so that lazy updates between blocks are part of it.
    const SparseGptResult result =
        sparsegpt(problem.weight, problem.hessian, groups(keep, group), {0.01, 12});
    const at::Tensor difference = result.weight.to(at::kDouble).sub(expected);
    // Masks are equal; weights are rounded to fp32 once (2^-24), and fp64 loses condition * eps, 1e-12.
    EXPECT_TRUE(result.weight.ne(0).eq(expected.ne(0)).all().item<bool>()) << keep << ":" << group;
    EXPECT_LT(difference.norm().item<double>() / expected.norm().item<double>(),
              std::ldexp(1.0, -24) + 1e-11);
    EXPECT_EQ(result.damping, 0.01);
  }
}

TEST(SparseGpt, LeavesLessErrorThanWandaOnCorrelatedInputs) {
  const Problem problem = random_problem(32, 64);
  const Pattern pattern = groups(2, 4);
  const at::Tensor swept = sparsegpt(problem.weight, problem.hessian, pattern, {}).weight;
  const at::Tensor scores = wanda_scores(problem.weight, problem.hessian.diagonal().contiguous());
  const at::Tensor wanda = problem.weight.mul(keep_mask(scores, pattern, Scope::kRow));
  EXPECT_LT(relative_error(problem.weight, swept, problem.hessian),
            0.9 * relative_error(problem.weight, wanda, problem.hessian));
}

TEST(SparseGpt, UnstructuredPrunesTheShareOfEachBlock) {
  const Problem problem = random_problem(16, 64);
  const Pattern pattern{Pattern::Kind::kUnstructured, 0, 0, 0.6};
  const at::Tensor pruned = sparsegpt(problem.weight, problem.hessian, pattern, {0.01, 32}).weight;
  for (const std::int64_t begin : {0, 32}) {  // threshold included: floor(512 * 0.6) + 1
    EXPECT_EQ(pruned.narrow(1, begin, 32).eq(0).sum().item<std::int64_t>(), 308);
  }
}

TEST(SparseGpt, ZeroesDeadColumns) {
  Problem problem = random_problem(5, 16);
  problem.hessian.select(0, 6).zero_();
  problem.hessian.select(1, 6).zero_();
  const at::Tensor pruned = sparsegpt(problem.weight, problem.hessian, groups(2, 4), {}).weight;
  EXPECT_TRUE(pruned.select(1, 6).eq(0).all().item<bool>());
  EXPECT_TRUE(pruned.isfinite().all().item<bool>());
}

TEST(SparseGpt, EscalatesTheDampingAndSaysSo) {
  const at::Tensor weight = at::randn({4, 8});
  at::Tensor indefinite = at::ones({8, 8});  // rank 1; made slightly indefinite
  indefinite.diagonal().mul_(0.95);
  const SparseGptResult result = sparsegpt(weight, indefinite, groups(2, 4), {0.001, 128});
  EXPECT_DOUBLE_EQ(result.damping, 0.1);  // 0.001 times 10 twice
  at::Tensor hopeless = at::eye(8).neg();
  EXPECT_THROW(sparsegpt(weight, hopeless, groups(2, 4), {}), Error);
}

TEST(SparseGpt, RefusesRaggedGroups) {
  EXPECT_THROW(sparsegpt(at::zeros({2, 6}), at::eye(6), groups(2, 4), {}), Error);
}

}  // namespace
}  // namespace grille::prune
