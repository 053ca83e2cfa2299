#include "grille/quantize/fp8.h"

#include <cmath>
#include <limits>

#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::quantize {
namespace {

tensors::Weight random_weight(std::int64_t rows, std::int64_t cols, at::ScalarType dtype) {
  return tensors::dense_weight(at::randn({rows, cols}).mul(0.05).to(dtype));
}

std::string error_of(const tensors::Weight& weight) {
  try {
    quantize_fp8(weight, at::kBFloat16, "model.layers.3.mlp.up_proj");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(QuantizeFp8, ScaleIsTheStoredAmaxOver448AndValuesAreRoundedWithIt) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const at::ScalarType scale_dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const tensors::Weight weight = random_weight(7, 37, dtype);
      const Fp8Result result = quantize_fp8(weight, scale_dtype, "w");
      const at::Tensor scale =
          std::get<0>(weight.values.to(at::kFloat).abs().max(1)).div(448.0f).to(scale_dtype);
      EXPECT_EQ(result.weight.scale.scalar_type(), scale_dtype);
      EXPECT_TRUE(result.weight.scale.equal(scale));
      // A rounded scale moves the largest value to 449.8 at most; torch rounds up to 464 as we do.
      const at::Tensor values =
          weight.values.to(at::kFloat).div(scale.to(at::kFloat).unsqueeze(1)).to(at::kFloat8_e4m3fn);
      EXPECT_TRUE(result.weight.values.to(at::kFloat).equal(values.to(at::kFloat)));
      EXPECT_EQ(result.saturated, 0);
    }
  }
}

TEST(QuantizeFp8, ARowOfZerosHasScaleOne) {
  const at::Tensor values = at::randn({3, 8});
  values[1].zero_();
  const Fp8Result result = quantize_fp8(tensors::dense_weight(values), at::kBFloat16, "w");
  EXPECT_EQ(result.weight.scale[1].item<float>(), 1.0f);
  EXPECT_EQ(result.weight.values[1].to(at::kFloat).abs().sum().item<float>(), 0.0f);
}

TEST(QuantizeFp8, TwoFourGivesTheSameNumbersAsItsDenseForm) {
  const at::Tensor dense = at::randn({5, 36});
  dense.view({5, 9, 4}).narrow(2, 1, 2).zero_();
  const Fp8Result two_four = quantize_fp8(tensors::two_four_from_dense(dense, "w"), at::kBFloat16, "w");
  const Fp8Result whole = quantize_fp8(tensors::dense_weight(dense), at::kBFloat16, "w");
  EXPECT_EQ(two_four.weight.format, tensors::WeightFormat::kTwoFour);
  EXPECT_TRUE(two_four.weight.scale.equal(whole.weight.scale));
  EXPECT_TRUE(tensors::to_dense_float(two_four.weight).equal(tensors::to_dense_float(whole.weight)));
}

TEST(QuantizeFp8, CountsWeightsThatAScaleTooSmallCutsOff) {
  // 448 * 1.4 of fp16's smallest number: the scale becomes 1 of it, and 627 saturates; 400 does not.
  const float smallest = 0x1p-24f;
  const at::Tensor values = at::tensor({627.2f * smallest, 400.0f * smallest}).view({1, 2});
  const Fp8Result result = quantize_fp8(tensors::dense_weight(values), at::kHalf, "w");
  EXPECT_EQ(result.weight.scale.item<float>(), smallest);
  EXPECT_EQ(result.saturated, 1);
  EXPECT_EQ(result.weight.values.to(at::kFloat)[0][0].item<float>(), 448.0f);
}

TEST(QuantizeFp8, NamesTheLayerAndRowOfWhatHasNoCode) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const at::Tensor values = at::randn({4, 8});
    values[2][5] = bad;
    const std::string message = error_of(tensors::dense_weight(values));
    EXPECT_NE(message.find("model.layers.3.mlp.up_proj"), std::string::npos) << message;
    EXPECT_NE(message.find("row 2"), std::string::npos) << message;
  }
  EXPECT_NE(
      error_of(quantize_fp8(random_weight(2, 8, at::kFloat), at::kFloat, "w").weight).find("FP8 already"),
      std::string::npos);
}

}  // namespace
}  // namespace grille::quantize
