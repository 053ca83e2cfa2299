#include "grille/benchmark/tune.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace grille::benchmark {
namespace {

// A candidate that takes `seconds`, and seems to take `estimate` at first.
struct Fake {
  double seconds = 1;
  double estimate = 0;                // 0: as `seconds`
  std::optional<double> error = 0.5;  // nothing: does not run
};

class FakeTimer final : public CandidateTimer {
 public:
  explicit FakeTimer(std::vector<Fake> fakes) : fakes_(std::move(fakes)) {}

  std::optional<double> error(std::size_t candidate) override {
    checked_ = candidate;
    return fakes_[candidate].error;
  }
  double estimate(std::size_t candidate) override {
    EXPECT_EQ(candidate, checked_);
    const Fake& fake = fakes_[candidate];
    return fake.estimate > 0 ? fake.estimate : fake.seconds;
  }
  std::vector<double> measure(const std::vector<std::size_t>& candidates) override {
    measured = candidates;
    std::vector<double> seconds;
    for (const std::size_t i : candidates) seconds.push_back(fakes_[i].seconds);
    return seconds;
  }

  std::vector<std::size_t> measured;

 private:
  std::vector<Fake> fakes_;
  std::size_t checked_ = 0;
};

PlanChoice choose(const std::vector<Fake>& fakes) {
  FakeTimer timer(fakes);
  return choose_plan(fakes.size(), timer);
}

TEST(BenchmarkTune, TheFastestIsChosen) {
  const PlanChoice choice = choose({{10}, {8}, {9}, {12}});
  EXPECT_EQ(choice.best, 1u);
  EXPECT_EQ(choice.best_seconds, 8);
  EXPECT_EQ(choice.rule_seconds, 10);
  EXPECT_EQ(choice.right, 4);
  EXPECT_EQ(choice.refused, 0);
  EXPECT_TRUE(choice.wrong.empty());
}

TEST(BenchmarkTune, TheRulesPlanStaysUnlessAnotherIsFasterByMoreThanNoise) {
  EXPECT_EQ(choose({{10}, {9.97}}).best, 0u);
  EXPECT_EQ(choose({{10}, {9.97}}).best_seconds, 10);
  EXPECT_EQ(choose({{10}, {9.9}}).best, 1u);
  EXPECT_EQ(choose({{10}, {11}}).best, 0u);
  EXPECT_EQ(choose({{10}}).best, 0u);
}

TEST(BenchmarkTune, WhatIsWrongOrDoesNotRunIsNeverChosen) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const PlanChoice choice =
      choose({{10}, {1, 0, 1.5}, {2, 0, nan}, {3, 0, infinity}, {4, 0, std::nullopt}, {5, 0, 1.0}});
  EXPECT_EQ(choice.best, 5u);
  EXPECT_EQ(choice.wrong, (std::vector<std::size_t>{1, 2, 3}));
  EXPECT_EQ(choice.refused, 1);
  EXPECT_EQ(choice.right, 2);
}

TEST(BenchmarkTune, AWrongRuleLeavesTheOthers) {
  const PlanChoice choice = choose({{1, 0, 2.0}, {9}, {8}});
  EXPECT_EQ(choice.best, 2u);
  EXPECT_EQ(choice.rule_seconds, 0);
  EXPECT_EQ(choice.wrong, (std::vector<std::size_t>{0}));
}

TEST(BenchmarkTune, NoneMayBeRight) {
  const PlanChoice choice = choose({{1, 0, 2.0}, {1, 0, std::nullopt}});
  EXPECT_EQ(choice.right, 0);
  EXPECT_EQ(choice.best_seconds, 0);
  EXPECT_EQ(choose({}).right, 0);
}

// A first look may be off; the best few of it and the rule's plan are looked at again.
TEST(BenchmarkTune, TheBestFewAndTheRuleAreMeasuredAgain) {
  std::vector<Fake> fakes = {{20, 30}};
  for (int i = 1; i < 50; ++i) fakes.push_back({15.0, 10.0 + i});
  fakes[4].seconds = 9;
  fakes[40].seconds = 1;  // but it looked slow
  FakeTimer timer(fakes);
  const PlanChoice choice = choose_plan(fakes.size(), timer);
  EXPECT_EQ(choice.best, 4u);
  EXPECT_EQ(timer.measured, (std::vector<std::size_t>{1, 2, 3, 4, 5, 0}));
}

TuneResults sample_tuning() {
  TuneResults results;
  results.device.name = "NVIDIA H200";
  const LayerShape shape{"qkv", 4096, 6144};
  results.points.push_back({"2:4-fp8", shape, 16, "stream A", "stream B", 12.0, 8.0, 40, 0, 0});
  results.points.push_back({"2:4-fp8", shape, 64, "stream A", "stream A", 10.0, 10.0, 39, 2, 1});
  results.points.push_back({"2:4-int8", shape, 64, "large C", "large D", 0, 5.0, 3, 1, 0});
  results.notes.push_back("2:4-fp8 at m=64 qkv: wrong result: stream Z");
  return results;
}

TEST(BenchmarkTune, TheTableHasBothPlansAndTheGain) {
  const std::string text = tune_table(sample_tuning());
  for (const char* part :
       {"m=16 qkv 4096x6144", "rule: stream A", "best: stream B", "1.500x", "42 tried, 2 wrong, 1 refused",
        "1.000x", "wrong result: stream Z", "12.00", "8.00"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  // 22 us by the rule, 18 with the best plans: the sums' ratio, and the root of 1.5 x 1.
  EXPECT_NE(text.find("22.00"), std::string::npos) << text;
  EXPECT_NE(text.find("1.222"), std::string::npos) << text;
  EXPECT_NE(text.find("1.225"), std::string::npos) << text;
}

TEST(BenchmarkTune, JsonHasEveryPoint) {
  const nlohmann::json json = tune_json(sample_tuning());
  ASSERT_EQ(json["points"].size(), 3u);
  EXPECT_EQ(json["points"][0]["best"], "stream B");
  EXPECT_EQ(json["points"][0]["best_us"], 8.0);
  EXPECT_EQ(json["points"][1]["wrong"], 2);
  EXPECT_EQ(json["machine"]["name"], "NVIDIA H200");
  EXPECT_EQ(json["notes"].size(), 1u);
}

TEST(BenchmarkTune, TheHeaderNamesTheDevice) {
  DeviceRecord device;
  device.name = "NVIDIA H200";
  device.multiprocessors = 132;
  device.driver = "580.1";
  device.cuda_runtime = "13.0";
  const PlanFile header = plan_file_header(device);
  EXPECT_EQ(header.device, "NVIDIA H200");
  EXPECT_EQ(header.multiprocessors, 132);
  EXPECT_FALSE(header.version.empty());
  EXPECT_TRUE(header.plans.empty());
}

}  // namespace
}  // namespace grille::benchmark
