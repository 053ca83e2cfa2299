#include "grille/prune/statistics.h"

#include <cmath>

#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

namespace grille::prune {
namespace {

// |difference| of two fp64 sums of x's products in different orders: terms * eps * sum of magnitudes,
// entrywise.
at::Tensor fp64_bound(const at::Tensor& x) {
  const at::Tensor magnitude = x.abs().to(at::kDouble);
  return at::mm(magnitude.t(), magnitude).mul(2.0 * static_cast<double>(x.size(0)) * std::ldexp(1.0, -53));
}

TEST(InputStatistics, HessianIsTwiceTheMeanGramMatrix) {
  // 700 features: more than one block of the triangle. Heavy tails, as real activations have.
  const at::Tensor a = at::randn({40, 700}).pow(3);
  const at::Tensor b = at::randn({25, 700}).pow(3);
  InputStatistics statistics(700);
  statistics.add(a);
  statistics.add(b);
  const at::Tensor all = at::cat({a, b}).to(at::kDouble);
  const at::Tensor expected = at::mm(all.t(), all);
  const at::Tensor error = statistics.hessian().sub(expected).abs();
  EXPECT_TRUE(error.le(fp64_bound(at::cat({a, b}))).all().item<bool>());
  EXPECT_EQ(statistics.sequences(), 2);
  const at::Tensor squares = statistics.mean_squares().to(at::kDouble);
  EXPECT_LT(squares.sub(expected.diagonal().div(2)).abs().div(squares).max().item<double>(),
            std::ldexp(1.0, -24));  // stored as fp32
}

TEST(InputStatistics, TellsNanFromNumbers) {
  InputStatistics statistics(8);
  at::Tensor x = at::randn({3, 8});
  statistics.add(x);
  EXPECT_TRUE(statistics.finite());
  x[1][5] = NAN;
  statistics.add(x);
  EXPECT_FALSE(statistics.finite());
}

TEST(RelativeError, IsTheNormOfTheOutputDifference) {
  const at::Tensor x = at::randn({64, 24});
  const at::Tensor weight = at::randn({10, 24});
  const at::Tensor pruned = weight.mul(at::randn({10, 24}).gt(0));
  InputStatistics statistics(24);
  statistics.add(x);
  const at::Tensor dense_out = at::mm(x, weight.t()).to(at::kDouble);
  const at::Tensor error = at::mm(x, weight.sub(pruned).t()).to(at::kDouble);
  const double expected = error.norm().item<double>() / dense_out.norm().item<double>();
  EXPECT_NEAR(relative_error(weight, pruned, statistics.hessian()), expected, 1e-5 * expected);
  EXPECT_EQ(relative_error(weight, weight, statistics.hessian()), 0.0);
}

}  // namespace
}  // namespace grille::prune
