#include "grille/engine/sampler.h"

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

TEST(Sampler, RefusesNanAndBadOptions) {
  Sampler sampler({}, {}, 2);
  EXPECT_THROW(sampler.sample(std::vector<float>{1.0f, NAN}), Error);
  for (const auto set :
       {+[](SamplingOptions& o) { o.temperature = -1; }, +[](SamplingOptions& o) { o.top_k = -1; },
        +[](SamplingOptions& o) { o.top_p = 0; }, +[](SamplingOptions& o) { o.min_p = 1.5; },
        +[](SamplingOptions& o) { o.repetition_penalty = 0; },
        +[](SamplingOptions& o) { o.temperature = NAN; }}) {
    SamplingOptions options;
    set(options);
    EXPECT_THROW(check_sampling(options), Error);
  }
}

}  // namespace
}  // namespace grille::engine
