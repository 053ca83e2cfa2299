#include "grille/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::engine {
namespace {

const std::vector<float> kLogits = {1.0f, 3.0f, 2.0f, 3.0f, -1.0f};

std::map<std::int32_t, int> draw(const SamplingOptions& options, int count) {
  std::map<std::int32_t, int> seen;
  Sampler sampler(options, {}, static_cast<std::int64_t>(kLogits.size()));
  for (int i = 0; i < count; ++i) ++seen[sampler.sample(kLogits).token];
  return seen;
}

TEST(Sampler, GreedyTakesTheLowestOfTheBest) {
  Sampler sampler({}, {}, 5);
  const Sampled sampled = sampler.sample(kLogits);
  EXPECT_EQ(sampled.token, 1);
  double sum = 0;
  for (const float logit : kLogits) sum += std::exp(logit);
  // Stored as a float, of magnitude below 4: half a unit there, and log's own.
  EXPECT_NEAR(sampled.logprob, 3.0 - std::log(sum), 4 * 0x1p-24);
}

TEST(Sampler, FollowsTheDistribution) {
  SamplingOptions options;
  options.temperature = 2.0;
  options.seed = 7;
  constexpr int kDraws = 40000;
  const auto seen = draw(options, kDraws);
  double sum = 0;
  for (const float logit : kLogits) sum += std::exp(logit / 2.0);
  for (std::size_t i = 0; i < kLogits.size(); ++i) {
    const double p = std::exp(kLogits[i] / 2.0) / sum;
    const double sigma = std::sqrt(p * (1 - p) * kDraws);  // 5 sigma: one false alarm in a million
    EXPECT_NEAR(seen.at(static_cast<std::int32_t>(i)), p * kDraws, 5 * sigma) << i;
  }
}

TEST(Sampler, SameSeedSameTokens) {
  SamplingOptions options;
  options.temperature = 1.0;
  options.seed = 11;
  EXPECT_EQ(draw(options, 100), draw(options, 100));
  SamplingOptions other = options;
  other.seed = 12;
  EXPECT_NE(draw(options, 1000), draw(other, 1000));
}

TEST(Sampler, TopKTopPAndMinPLeaveOutTheRest) {
  SamplingOptions options;
  options.temperature = 5.0;
  options.top_k = 2;
  EXPECT_EQ(draw(options, 500).size(), 2u);  // 1 and 3
  options.top_k = 0;
  options.top_p = 0.05;
  EXPECT_EQ(draw(options, 500).size(), 1u);
  options.top_p = 1.0;
  options.min_p = 0.8;  // at temperature 5: exp(-1/5) = 0.82 stays, exp(-2/5) = 0.67 goes
  const auto seen = draw(options, 2000);
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_FALSE(seen.contains(0));
}

TEST(Sampler, RepetitionPenaltyCountsPromptAndOutput) {
  SamplingOptions options;
  options.repetition_penalty = 2.0;
  const std::vector<std::int32_t> prompt = {1};
  Sampler sampler(options, prompt, 5);
  EXPECT_EQ(sampler.sample(kLogits).token, 3);  // 1 is down to 1.5
  EXPECT_EQ(sampler.sample(kLogits).token, 2);  // 3 is too
}

TEST(Sampler, FrequencyAndPresencePenaltiesCountTheOutputAlone) {
  const std::vector<std::int32_t> prompt = {1, 1, 1};
  SamplingOptions options;
  options.frequency_penalty = 0.6;  // 1 and 3 stand at 3, 2 at 2
  Sampler frequency(options, prompt, 5);
  std::vector<std::int32_t> tokens(7);
  for (std::int32_t& token : tokens) token = frequency.sample(kLogits).token;
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{1, 3, 1, 3, 2, 1, 3}));
  options.frequency_penalty = 0.0;
  options.presence_penalty = 1.5;
  Sampler presence(options, prompt, 5);
  tokens.clear();
  for (int i = 0; i < 6; ++i) tokens.push_back(presence.sample(kLogits).token);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{1, 3, 2, 1, 1, 1}));  // once, however often a token came
  options.presence_penalty = -1.5;
  Sampler reward(options, {}, 5);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reward.sample(kLogits).token, 1);
}

TEST(Sampler, BiasMovesLogitsAndLeavesLogProbabilities) {
  SamplingOptions options;
  options.logit_bias = {{4, 10.0f}, {1, -100.0f}, {3, -100.0f}};
  Sampler sampler(options, {}, 5);
  const Sampled sampled = sampler.sample(kLogits);
  EXPECT_EQ(sampled.token, 4);
  double sum = 0;
  for (const float logit : kLogits) sum += std::exp(logit);
  EXPECT_NEAR(sampled.logprob, -1.0 - std::log(sum), 8 * 0x1p-24);
  options.temperature = 3.0;
  EXPECT_FALSE(draw(options, 500).contains(1));
}

TEST(Sampler, MaskedTokensDoNotCome) {
  const std::vector<std::uint8_t> allowed = {1, 0, 1, 0, 1};
  const std::vector<std::int32_t> banned = {2, 2, 77};
  SamplingOptions options;
  for (const double temperature : {0.0, 2.0}) {
    options.temperature = temperature;
    Sampler sampler(options, {}, 5);
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(sampler.sample(kLogits, {allowed, {}}).token % 2, 0);
      const std::int32_t token = sampler.sample(kLogits, {allowed, banned}).token;
      EXPECT_TRUE(token == 0 || token == 4);
    }
    const std::vector<std::uint8_t> only = {0, 0, 1, 0, 0};
    EXPECT_EQ(sampler.sample(kLogits, {only, banned}).token, 2);  // nothing else is left
    const std::vector<std::uint8_t> none(5, 0);
    EXPECT_THROW(sampler.sample(kLogits, {none, {}}), Error);
  }
}

TEST(Sampler, TopPOfALargeVocabularyEqualsItsDefinition) {
  std::vector<float> logits(3000);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = 0.001f * static_cast<float>((i * 7919) % 3000);
  std::vector<double> sorted;
  double total = 0;
  for (const float logit : logits) total += sorted.emplace_back(std::exp(logit));
  std::sort(sorted.rbegin(), sorted.rend());
  SamplingOptions options;
  options.temperature = 1.0;
  options.top_p = 0.9;
  double reached = 0;
  std::size_t kept = 0;
  while (reached < options.top_p * total) reached += sorted[kept++];
  Sampler sampler(options, {}, 3000);
  float least = 3.0f;
  for (int i = 0; i < 20000; ++i) {
    least = std::min(least, logits[static_cast<std::size_t>(sampler.sample(logits).token)]);
  }
  const double edge = std::log(sorted[kept - 1]);  // the last that is kept
  EXPECT_GE(least, edge - 1e-5);
  EXPECT_LE(least, edge + 0.02);  // 20 tokens, of probability 1e-4 each: missed once in e^40 runs
}

TEST(Sampler, RefusesNanAndBadOptions) {
  Sampler sampler({}, {}, 2);
  EXPECT_THROW(sampler.sample(std::vector<float>{1.0f, NAN}), Error);
  for (const auto set :
       {+[](SamplingOptions& o) { o.temperature = -1; }, +[](SamplingOptions& o) { o.top_k = -1; },
        +[](SamplingOptions& o) { o.top_p = 0; }, +[](SamplingOptions& o) { o.min_p = 1.5; },
        +[](SamplingOptions& o) { o.repetition_penalty = 0; },
        +[](SamplingOptions& o) { o.frequency_penalty = 2.1; },
        +[](SamplingOptions& o) { o.presence_penalty = -2.1; },
        +[](SamplingOptions& o) { o.presence_penalty = NAN; },
        +[](SamplingOptions& o) {
          o.logit_bias = {{0, 100.5f}};
        },
        +[](SamplingOptions& o) {
          o.logit_bias = {{0, NAN}};
        },
        +[](SamplingOptions& o) { o.temperature = NAN; }}) {
    SamplingOptions options;
    set(options);
    EXPECT_THROW(check_sampling(options), Error);
  }
  SamplingOptions outside;
  outside.logit_bias = {{2, 1.0f}};
  EXPECT_THROW(Sampler(outside, {}, 2), Error);
}

}  // namespace
}  // namespace grille::engine
