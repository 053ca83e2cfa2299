#include "grille/benchmark/summary.h"

#include <cmath>

#include <gtest/gtest.h>

#include "grille/benchmark/sample_results.h"

namespace grille::benchmark {
namespace {

const Comparison* find(const std::vector<Comparison>& list, const std::string& contender,
                       const std::string& baseline) {
  for (const Comparison& c : list) {
    if (c.contender == contender && c.baseline == baseline) return &c;
  }
  return nullptr;
}

TEST(BenchmarkSummary, MeansOfRatios) {
  const std::vector<Comparison> list = compare(testing::sample_results().points);
  const Comparison* c = find(list, "2:4-fp8", "cublaslt-fp8-tensorwise");  // ratios 2, 1.5, 1.5, 1.5
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->points, 4);
  EXPECT_DOUBLE_EQ(c->arithmetic, 6.5 / 4);
  EXPECT_NEAR(c->geometric, std::pow(2 * 1.5 * 1.5 * 1.5, 0.25), 1e-12);
  EXPECT_DOUBLE_EQ(c->sums, 65.0 / 40);
  EXPECT_DOUBLE_EQ(c->minimum, 1.5);
  EXPECT_EQ(c->minimum_at, "m=16 b");
}

TEST(BenchmarkSummary, TheBestOfBothFp8ScalingsIsABaselineOfItsOwn) {
  const std::vector<Comparison> list = compare(testing::sample_results().points);
  const Comparison* c = find(list, "2:4-fp8", "cublaslt-fp8-best");  // 20 and 12, 12, 12 us
  ASSERT_NE(c, nullptr);
  EXPECT_DOUBLE_EQ(c->sums, 56.0 / 40);
  EXPECT_DOUBLE_EQ(c->minimum, 1.2);
}

TEST(BenchmarkSummary, OnlyPointsThatBothHaveCount) {
  const std::vector<Comparison> list = compare(testing::sample_results().points);
  const Comparison* c = find(list, "2:4-fp8", "cusparselt-fp8");  // only at m=16: 0.5, 2
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->points, 2);
  EXPECT_DOUBLE_EQ(c->geometric, 1.0);
  EXPECT_DOUBLE_EQ(c->minimum, 0.5);
  EXPECT_EQ(c->minimum_at, "m=16 a");
  EXPECT_NE(find(list, "cusparselt-fp8", "2:4-fp8"), nullptr);
  EXPECT_EQ(find(list, "cublaslt-fp8-rowwise", "2:4-fp8"), nullptr) << "dense ones are only baselines";
}

TEST(BenchmarkSummary, LayerSumsWantEveryLayer) {
  LinearResults results = testing::sample_results();
  const std::vector<LayerSum> sums = layer_sums(results.points);
  const auto us = [&](const std::string& contender, std::int64_t m) {
    for (const LayerSum& sum : sums) {
      if (sum.contender == contender && sum.m == m) return sum.us;
    }
    return 0.0;
  };
  EXPECT_DOUBLE_EQ(us("2:4-fp8", 16), 20);
  EXPECT_DOUBLE_EQ(us("cublaslt-fp8-tensorwise", 16), 35);
  EXPECT_DOUBLE_EQ(us("cublaslt-fp8-best", 16), 32);
  EXPECT_DOUBLE_EQ(us("cusparselt-fp8", 16), 25);
  EXPECT_EQ(us("cusparselt-fp8", 128), 0);
  results.points.erase(results.points.begin());
  for (const LayerSum& sum : layer_sums(results.points))
    EXPECT_FALSE(sum.contender == "2:4-fp8" && sum.m == 16);
}

TEST(BenchmarkSummary, SmallBatchesAreThoseUpTo64) {
  const std::vector<LayerSum> sums = {{"a", 1, 10}, {"a", 64, 20}, {"a", 65, 1000}, {"b", 65, 7}};
  EXPECT_DOUBLE_EQ(small_batch_us(sums, "a"), 15);
  EXPECT_EQ(small_batch_us(sums, "b"), 0);
}

TEST(BenchmarkSummary, NothingMeasuredIsNoError) {
  EXPECT_TRUE(compare({}).empty());
  EXPECT_TRUE(layer_sums({}).empty());
  EXPECT_TRUE(with_best_fp8({}).empty());
}

}  // namespace
}  // namespace grille::benchmark
