#include "grille/nn/linear.h"

#include <array>
#include <cmath>

#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::nn {
namespace {

// |y - exact| for fp32 sums of k products: k eps times the sum of the products' magnitudes.
void expect_close(const at::Tensor& y, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias) {
  const at::Tensor exact = at::linear(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble));
  const at::Tensor size =
      at::linear(x.abs().to(at::kDouble), weight.abs().to(at::kDouble), bias.abs().to(at::kDouble));
  const double k = static_cast<double>(x.size(-1));
  EXPECT_TRUE(y.to(at::kDouble).sub(exact).abs().le(size.mul(k * std::ldexp(1.0, -24))).all().item<bool>());
}

at::Tensor two_four_values(std::int64_t rows, std::int64_t cols) {
  at::Tensor weight = at::randn({rows, cols});
  weight.view({rows, cols / 4, 4}).narrow(2, 1, 2).zero_();
  return weight;
}

TEST(WeightLinear, IsXTimesWeightTransposedPlusBias) {
  const at::Tensor x = at::randn({2, 3, 20});
  const at::Tensor bias = at::randn({12});
  const at::Tensor weight = two_four_values(12, 20);
  for (const tensors::Weight& stored :
       {tensors::dense_weight(weight), tensors::two_four_from_dense(weight, "w")}) {
    const WeightLinear linear(stored, bias);
    const at::Tensor y = linear.forward(x);
    EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 3, 12}));
    expect_close(y, x, weight, bias);
    at::Tensor hidden = at::zeros({2, 3, 12});
    linear.forward_add(x, hidden);
    linear.forward_add(x, hidden);
    EXPECT_TRUE(hidden.equal(y.add(y)));
  }
}

TEST(WeightLinear, RoundsActivationsToFp8WhenTold) {
  // Values that FP8 holds exactly, with a largest of 448: the token's scale is 1 and nothing is lost.
  const at::Tensor exact = at::zeros({1, 8});
  exact[0][0] = 448.0f;
  exact[0][1] = 0.875f;
  const at::Tensor rounded = exact.clone();
  rounded[0][2] = 1.03f;  // becomes 1 in FP8
  const at::Tensor values = at::randn({4, 8}).to(at::kFloat8_e4m3fn);
  const tensors::Weight weight = tensors::dense_weight(values, at::zeros({4}).add(0.5));
  const WeightLinear full(weight, {}, Activations::kFull);
  const WeightLinear quantized(weight, {}, Activations::kFp8);
  EXPECT_TRUE(quantized.forward(exact).equal(full.forward(exact)));
  EXPECT_FALSE(quantized.forward(rounded).equal(full.forward(rounded)));
  exact[0][2] = 1.0f;
  EXPECT_TRUE(quantized.forward(rounded).equal(full.forward(exact)));
}

TEST(WeightLinear, SharedForwardEqualsOneByOne) {
  const at::Tensor x = at::randn({5, 16});
  const WeightLinear dense(tensors::dense_weight(at::randn({6, 16})));
  const WeightLinear sparse(tensors::two_four_from_dense(two_four_values(7, 16), "w"), at::randn({7}));
  const std::array<const Linear*, 2> linears = {&dense, &sparse};
  const auto outputs = forward_shared(x, linears);
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_TRUE(outputs[0].equal(dense.forward(x)));
  EXPECT_TRUE(outputs[1].equal(sparse.forward(x)));
}

TEST(WeightLinear, RefusesWhatDoesNotFit) {
  const tensors::Weight weight = tensors::dense_weight(at::randn({4, 8}));
  EXPECT_THROW(WeightLinear(weight, at::randn({5})), Error);
  EXPECT_THROW(WeightLinear(weight, {}, Activations::kFp8), Error);
  const WeightLinear linear(weight);
  EXPECT_THROW(linear.with_weight(tensors::dense_weight(at::randn({8, 4}))), Error);
  EXPECT_THROW(linear.forward(at::randn({2, 7})), Error);
}

}  // namespace
}  // namespace grille::nn
