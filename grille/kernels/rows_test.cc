// rms_norm, silu_mul, rope and summarize_logits against their definitions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/kernels/reference_values.h"
#include "grille/kernels/rms_norm.h"
#include "grille/kernels/rope.h"
#include "grille/kernels/row_cases.h"
#include "grille/kernels/silu_mul.h"
#include "grille/kernels/summarize_logits.h"

namespace grille::kernels {
namespace {

using testing::kFloatTypes;
using testing::Matrix;

double rounded(DType dtype, double value) {
  std::uint32_t memory = 0;
  set_reference_value(dtype, &memory, 0, static_cast<float>(value));
  return reference_value(dtype, &memory, 0);
}

// A unit in the last place of the dtype, relative.
double unit(DType dtype) {
  return dtype == DType::kFloat32 ? 0x1p-23 : dtype == DType::kFloat16 ? 0x1p-10 : 0x1p-7;
}

TEST(PerIsaRmsNorm, MatchesLlamaRmsNorm) {
  for (DType dtype : kFloatTypes) {
    for (std::int64_t cols : {1, 5, 16, 64, 577}) {
      Matrix x(dtype, 3, cols, 1, 3.0f), y(dtype, 3, cols, 2), weight(DType::kFloat32, 1, cols, 3);
      const auto* w = reinterpret_cast<const float*>(weight.data.data());
      rms_norm(x.view(), w, 1e-5f, y.view());
      for (std::int64_t i = 0; i < 3; ++i) {
        double squares = 0.0;
        for (std::int64_t j = 0; j < cols; ++j) squares += x.at(i, j) * x.at(i, j);
        const double factor = 1.0 / std::sqrt(squares / static_cast<double>(cols) + 1e-5);
        for (std::int64_t j = 0; j < cols; ++j) {
          const double expected = rounded(dtype, rounded(dtype, x.at(i, j) * factor) * w[j]);
          // Two roundings to the dtype, each of which may go the other way, on a factor good to cols
          // roundings.
          const double relative = 2.0 * unit(dtype) + static_cast<double>(cols + 4) * 0x1p-24;
          ASSERT_LE(std::fabs(y.at(i, j) - expected), relative * std::fabs(expected) + 0x1p-24);
        }
      }
    }
  }
}

TEST(PerIsaSiluMul, MatchesDefinitionAlsoForLargeGates) {
  for (DType dtype : kFloatTypes) {
    for (float size : {1.0f, 60.0f}) {
      Matrix gate(dtype, 4, 53, 1, size), up(dtype, 4, 53, 2), y(dtype, 4, 53, 3);
      silu_mul(gate.view(), up.view(), y.view());
      for (std::int64_t i = 0; i < 4; ++i) {
        for (std::int64_t j = 0; j < 53; ++j) {
          const double g = gate.at(i, j);
          const double expected = g / (1.0 + std::exp(-g)) * up.at(i, j);
          // exp is good to 2 units, the rest is 4 roundings; tiny results may underflow.
          ASSERT_LE(std::fabs(y.at(i, j) - expected),
                    (unit(dtype) + 8 * 0x1p-24) * std::fabs(expected) + 0x1p-24)
              << g;
        }
      }
    }
  }
}

TEST(PerIsaRope, RotatesHalves) {
  for (DType dtype : kFloatTypes) {
    for (std::int64_t head_dim : {2, 8, 64, 80}) {
      const std::int64_t half = head_dim / 2;
      Matrix x(dtype, 5, 3 * head_dim, 1);
      const Matrix before = x;
      std::vector<float> cos, sin;
      for (std::int64_t i = 0; i < 5 * half; ++i) {
        cos.push_back(std::cos(0.37f * static_cast<float>(i)));
        sin.push_back(std::sin(0.37f * static_cast<float>(i)));
      }
      rope(x.view(), head_dim, cos.data(), sin.data());
      for (std::int64_t t = 0; t < 5; ++t) {
        for (std::int64_t j = 0; j < 3 * head_dim; ++j) {
          const std::int64_t i = j % head_dim % half;
          const double c = cos[t * half + i], s = sin[t * half + i];
          const double expected = j % head_dim < half ? before.at(t, j) * c - before.at(t, j + half) * s
                                                      : before.at(t, j) * c + before.at(t, j - half) * s;
          // Products of magnitude up to 5 may cancel.
          ASSERT_LE(std::fabs(x.at(t, j) - expected), unit(dtype) * std::fabs(expected) + 10.0 * 0x1p-23);
        }
      }
    }
  }
}

TEST(Rope, RefusesOddHeads) {
  Matrix x(DType::kFloat32, 1, 9, 1);
  const float table[8] = {};
  EXPECT_THROW(rope(x.view(), 3, table, table), Error);
  EXPECT_THROW(rope(x.view(), 2, table, table), Error);
}

std::vector<float> random_logits(std::size_t count, float mean) {
  std::mt19937 random(static_cast<std::uint32_t>(count));
  std::normal_distribution<float> normal(mean, 4.0f);
  std::vector<float> logits(count);
  for (float& x : logits) x = normal(random);
  return logits;
}

TEST(PerIsaSummarizeLogits, FindsTheFirstOfTheLargestAndTheNormaliser) {
  for (const std::size_t count : {1, 3, 16, 17, 1024, 1025, 5000}) {
    for (const float mean : {-50.0f, 0.0f, 50.0f}) {
      std::vector<float> logits = random_logits(count, mean);
      logits[count / 3] = logits[count / 2] = mean + 30.0f;
      if (count > 16) logits[1] = -std::numeric_limits<float>::infinity();
      double sum = 0.0;
      for (const float x : logits) sum += std::exp(static_cast<double>(x) - mean);
      const LogitSummary summary = summarize_logits(logits);
      EXPECT_EQ(summary.best, static_cast<std::int64_t>(count / 3));
      // exp within 2 units, 64 fp32 additions a lane: 66 x 2^-23 at most.
      EXPECT_NEAR(summary.log_sum_exp, mean + std::log(sum), 66 * 0x1p-23);
    }
  }
}

TEST(PerIsaSummarizeLogits, ReportsNanWhereverItIs) {
  for (const std::size_t count : {1, 16, 33, 1024, 2050}) {
    for (std::size_t i = 0; i < count; i += 7) {
      std::vector<float> logits = random_logits(count, 0.0f);
      logits[i] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_EQ(summarize_logits(logits).best, -1) << i << " of " << count;
    }
  }
  EXPECT_THROW(summarize_logits({}), Error);
}

}  // namespace
}  // namespace grille::kernels
