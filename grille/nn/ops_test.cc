#include "grille/nn/ops.h"

#include <cmath>

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

namespace grille::nn {
namespace {

// The kernels' numbers are tested in grille/kernels; here it is the shapes, strides and dtypes around them.

// A unit in the last place, relative.
double unit(at::ScalarType dtype) {
  return dtype == at::kFloat ? 0x1p-23 : dtype == at::kHalf ? 0x1p-10 : 0x1p-7;
}

void expect_near(const at::Tensor& y, const at::Tensor& exact, double relative) {
  const at::Tensor error = y.to(at::kDouble).sub(exact).abs();
  // The second term: results that underflow in half precision.
  EXPECT_TRUE(error.le(exact.abs().mul(relative).add(0x1p-24)).all().item<bool>()) << y << exact;
}

TEST(NnOps, RmsNormTakesAnyLeadingShapeAndRowStride) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor whole = at::randn({2, 3, 40}).to(dtype);
    const at::Tensor weight = at::randn({33});
    const at::Tensor x = whole.narrow(2, 4, 33);  // rows are 40 apart
    const at::Tensor y = rms_norm(x, weight, 1e-5);
    EXPECT_EQ(y.sizes(), x.sizes());
    EXPECT_EQ(y.scalar_type(), dtype);
    const at::Tensor wide = x.to(at::kDouble);
    const at::Tensor factor = wide.square().mean({2}, true).add(1e-5).rsqrt();
    // Rounded to the dtype twice (half a unit each, with slack for the other neighbour), on a factor that has
    // 33 fp32 roundings.
    expect_near(y, wide.mul(factor).mul(weight.to(at::kDouble)), 2 * unit(dtype) + 40 * 0x1p-24);
  }
}

TEST(NnOps, SiluMulTakesSlices) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor both = at::randn({5, 2 * 21}).to(dtype);
    const at::Tensor gate = both.narrow(1, 0, 21);
    const at::Tensor up = both.narrow(1, 21, 21);
    const at::Tensor y = silu_mul(gate, up);
    EXPECT_EQ(y.sizes(), gate.sizes());
    const at::Tensor g = gate.to(at::kDouble);
    // One rounding to the dtype (a unit with the other neighbour), a few in fp32.
    expect_near(y, g.mul(g.sigmoid()).mul(up.to(at::kDouble)), unit(dtype) + 8 * 0x1p-24);
  }
}

// What rotary embedding is for: the product of a query and a key depends on their distance alone.
TEST(NnOps, RotatedProductsDependOnTheDistance) {
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kHeadDim = 16;
  RotaryConfig config;
  config.head_dim = kHeadDim;
  const RotaryTable table(config);
  const at::Tensor query = at::randn({1, kHeads, kHeadDim});
  const at::Tensor key = at::randn({1, kHeads, kHeadDim});
  const auto product = [&](std::int64_t query_position, std::int64_t key_position) {
    at::Tensor q = query.clone();
    at::Tensor k = key.clone();
    apply_rotary(q, table.at_positions({query_position}));
    apply_rotary(k, table.at_positions({key_position}));
    return q.to(at::kDouble).mul(k.to(at::kDouble)).sum({2});
  };
  const at::Tensor near = product(9, 4);
  const at::Tensor far = product(109, 104);
  // Angles up to 109 have an error of 109 half units, which turns a vector by as much; and each rotation
  // rounds a few times. Both are relative to the vectors' lengths.
  const at::Tensor lengths =
      query.to(at::kDouble).square().sum({2}).sqrt().mul(key.to(at::kDouble).square().sum({2}).sqrt());
  const at::Tensor error = near.sub(far).abs();
  EXPECT_TRUE(error.le(lengths.mul(4 * (109 + 8) * 0x1p-24)).all().item<bool>());
  EXPECT_GT(near.sub(product(9, 5)).abs().max().item<double>(),
            0.01);  // and on nothing less than the distance
}

}  // namespace
}  // namespace grille::nn
