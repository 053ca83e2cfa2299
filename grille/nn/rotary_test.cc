#include "grille/nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

namespace grille::nn {
namespace {

RotaryConfig config_of(double theta, std::int64_t head_dim) {
  RotaryConfig config;
  config.theta = theta;
  config.head_dim = head_dim;
  return config;
}

// theta^(-2i/d) in fp32: the exponent is rounded to half a unit of at most 1, which the power turns into
// ln(theta) half units; the power and the division add one each.
double frequency_error(double theta) { return (std::log(theta) + 4.0) * 0x1p-24; }

TEST(Rotary, FrequenciesArePowersOfTheta) {
  for (const double theta : {10000.0, 500000.0}) {
    for (const std::int64_t head_dim : {2, 64, 80, 128}) {
      const std::vector<float> frequencies = rotary_frequencies(config_of(theta, head_dim));
      ASSERT_EQ(frequencies.size(), static_cast<std::size_t>(head_dim / 2));
      EXPECT_EQ(frequencies[0], 1.0f);
      for (std::size_t i = 0; i < frequencies.size(); ++i) {
        const double exact = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
        ASSERT_NEAR(frequencies[i], exact, exact * frequency_error(theta)) << i;
      }
    }
  }
}

TEST(Rotary, LinearScalingDividesEveryFrequency) {
  RotaryConfig config = config_of(10000.0, 64);
  const std::vector<float> plain = rotary_frequencies(config);
  config.scaling = RotaryConfig::Scaling::kLinear;
  config.factor = 4.0;  // a power of two: exact
  const std::vector<float> scaled = rotary_frequencies(config);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(scaled[i], plain[i] / 4.0f);
}

// Llama 3.1: wavelengths below 8192 / 4 positions stay, above 8192 / 1 are divided by 8, those between lie
// between, the nearer to unchanged the shorter they are.
TEST(Rotary, Llama3ScalingHasThreeRegions) {
  RotaryConfig config = config_of(500000.0, 128);
  const std::vector<float> plain = rotary_frequencies(config);
  config.scaling = RotaryConfig::Scaling::kLlama3;
  config.factor = 8.0;
  const std::vector<float> scaled = rotary_frequencies(config);
  int unchanged = 0;
  int divided = 0;
  double last_ratio = 1.0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2.0 * std::numbers::pi / plain[i];
    const double ratio = static_cast<double>(scaled[i]) / plain[i];
    EXPECT_LE(ratio, last_ratio) << i;
    last_ratio = ratio;
    if (wavelength < 2048.0) {
      EXPECT_EQ(scaled[i], plain[i]) << i;
      ++unchanged;
    } else if (wavelength > 8192.0) {
      EXPECT_EQ(scaled[i], plain[i] / 8.0f) << i;
      ++divided;
    } else {
      // 8192 / wavelength runs from 4 to 1; (that - 1) / 3 of the frequency stays. Both roundings to fp32.
      const double stays = (8192.0 / wavelength - 1.0) / 3.0;
      EXPECT_NEAR(ratio, stays + (1.0 - stays) / 8.0, 4 * 0x1p-24) << i;
    }
  }
  EXPECT_EQ(unchanged, 29);  // 500000^(i/64) * 2 pi < 2048: i < 28.2
  EXPECT_EQ(divided, 29);    // above 8192: i > 34.98
}

TEST(Rotary, TableHoldsTheAnglesOfThePositionsAsked) {
  const RotaryConfig config = config_of(10000.0, 8);
  const std::vector<float> frequencies = rotary_frequencies(config);
  const std::vector<std::int64_t> positions = {5, 0, 1000};
  const RotaryStep step = RotaryTable(config).at_positions(positions);
  ASSERT_EQ(step.cos.sizes(), at::IntArrayRef({3, 4}));
  for (std::size_t t = 0; t < positions.size(); ++t) {
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const double angle = static_cast<double>(positions[t]) * static_cast<double>(frequencies[i]);
      // The angle is rounded once, the function once.
      const double error = (angle + 2.0) * 0x1p-24;
      EXPECT_NEAR(step.cos.const_data_ptr<float>()[t * 4 + i], std::cos(angle), error);
      EXPECT_NEAR(step.sin.const_data_ptr<float>()[t * 4 + i], std::sin(angle), error);
    }
  }
}

}  // namespace
}  // namespace grille::nn
