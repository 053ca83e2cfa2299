#include "grille/nn/attention.h"

#include <cmath>

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/nn/rotary.h"

namespace grille::nn {
namespace {

// The definition for one query: softmax(q k^T / sqrt(d)) v over the keys [begin, position].
at::Tensor attend(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(query.size(0)));
  const at::Tensor weights = keys.to(at::kDouble).matmul(query.to(at::kDouble)).mul(scale).softmax(0);
  return weights.unsqueeze(0).matmul(values.to(at::kDouble)).squeeze(0);
}

TEST(SegmentAttention, EveryTokenSeesItsOwnDocumentUpToItself) {
  const std::vector<std::int64_t> lengths = {5, 1, 7};
  constexpr std::int64_t kHeads = 4, kKvHeads = 2, kDim = 8, kTokens = 13;
  const at::Tensor query = at::randn({kTokens, kHeads, kDim});
  const at::Tensor key = at::randn({kTokens, kKvHeads, kDim});
  const at::Tensor value = at::randn({kTokens, kKvHeads, kDim});
  SegmentAttention attention(lengths);
  const at::Tensor out = attention.forward(0, query, key, value).view({kTokens, kHeads, kDim});
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    for (std::int64_t t = begin; t < begin + length; ++t) {
      for (std::int64_t head = 0; head < kHeads; ++head) {
        const std::int64_t kv = head / (kHeads / kKvHeads);
        const std::int64_t seen = t + 1 - begin;
        const at::Tensor expected = attend(query[t][head], key.select(1, kv).narrow(0, begin, seen),
                                           value.select(1, kv).narrow(0, begin, seen));
        // Values of size 1 averaged with weights that sum to 1; exp and sums in fp32.
        EXPECT_LT(out[t][head].to(at::kDouble).sub(expected).abs().max().item<double>(), 64 * 6e-8);
      }
    }
    begin += length;
  }
}

TEST(SegmentAttention, RefusesSegmentsThatDoNotCoverTheTokens) {
  SegmentAttention attention({2, 2});
  const at::Tensor x = at::randn({5, 1, 4});
  EXPECT_THROW(attention.forward(0, x, x, x), Error);
}

TEST(Rotary, TurnsByPositionTimesFrequency) {
  RotaryConfig config;
  config.theta = 100.0;
  config.head_dim = 8;
  const auto frequencies = rotary_frequencies(config);
  ASSERT_EQ(frequencies.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(frequencies[i], std::pow(100.0, -2.0 * static_cast<double>(i) / 8), 1e-7);
  const RotaryStep step = RotaryTable(config).at_positions({0, 3});
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(step.cos[0][i].item<float>(), 1.0f);
    EXPECT_EQ(step.sin[0][i].item<float>(), 0.0f);
    EXPECT_NEAR(step.sin[1][i].item<float>(), std::sin(3 * frequencies[static_cast<std::size_t>(i)]), 1e-6);
  }
}

TEST(Rotary, Llama3ScalesLongWavelengthsOnly) {
  RotaryConfig config;
  config.theta = 500000.0;
  config.head_dim = 128;
  const auto plain = rotary_frequencies(config);
  config.scaling = RotaryConfig::Scaling::kLlama3;
  config.factor = 8.0;
  const auto scaled = rotary_frequencies(config);
  EXPECT_EQ(scaled.front(), plain.front());
  EXPECT_FLOAT_EQ(scaled.back(), plain.back() / 8);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_LE(scaled[i], plain[i]);
    EXPECT_GE(scaled[i], plain[i] / 8 * 0.999999f);
  }
}

}  // namespace
}  // namespace grille::nn
