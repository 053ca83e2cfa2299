#include "grille/prune/masked_solve.h"

#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

namespace grille::prune {
namespace {

// Every row by itself: its kept columns solve the normal equations.
at::Tensor definition(const at::Tensor& target, const at::Tensor& gram, const at::Tensor& keep) {
  at::Tensor x = at::zeros_like(target);
  for (std::int64_t row = 0; row < target.size(0); ++row) {
    const at::Tensor kept = keep[row].nonzero().squeeze(1);
    if (kept.size(0) == 0) continue;
    const at::Tensor part = gram.index_select(0, kept).index_select(1, kept);
    x[row].index_copy_(0, kept, at::linalg_solve(part, target[row].index_select(0, kept)));
  }
  return x;
}

struct Case {
  at::Tensor weight, gram, target, keep;
};

Case random_case(std::int64_t rows, std::int64_t cols) {
  Case c;
  const at::Tensor x = at::randn({3 * cols, cols}, at::kDouble);
  c.gram = at::mm(x.t(), x);
  c.weight = at::randn({rows, cols}, at::kDouble);
  c.target = at::mm(c.weight, c.gram);
  c.keep = at::rand({rows, cols}).gt(0.5);
  c.keep[0].fill_(false);  // rows with nothing and with everything kept
  c.keep[rows - 1].fill_(true);
  return c;
}

TEST(MaskedSolve, FindsTheBestWeightsOfEveryRow) {
  for (const auto& [rows, cols] : {std::pair<int, int>{2, 1}, {5, 7}, {11, 40}}) {
    const Case c = random_case(rows, cols);
    const at::Tensor expected = definition(c.target, c.gram, c.keep);
    const at::Tensor found =
        masked_solve(c.target, c.gram, c.keep, at::zeros({rows, cols}, at::kDouble), 4 * cols);
    EXPECT_TRUE(found.ne(0).logical_and(c.keep.logical_not()).any().logical_not().item<bool>());
    // Condition 100 or so in fp64, once for each solver.
    EXPECT_LT(found.sub(expected).norm().item<double>(), 1e-11 * expected.norm().item<double>());
  }
}

TEST(MaskedSolve, EveryIterationLowersTheError) {
  const Case c = random_case(9, 30);
  double last = INFINITY;
  for (std::int64_t iterations = 0; iterations < 12; ++iterations) {
    const at::Tensor d = c.weight.sub(masked_solve(c.target, c.gram, c.keep, c.weight, iterations));
    const double error = at::mm(d, c.gram).mul_(d).sum().item<double>();
    EXPECT_LT(error, last) << iterations;
    last = error;
  }
}

}  // namespace
}  // namespace grille::prune
