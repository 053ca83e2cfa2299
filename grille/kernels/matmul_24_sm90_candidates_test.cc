#include "grille/kernels/matmul_24_sm90_candidates.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "grille/formats/two_four_sm90.h"

namespace grille::kernels {
namespace {

constexpr DType kDTypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3, DType::kInt8};

Matmul24Sm90Problem problem_of(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
  return {.m = m, .n = n, .k = k, .dtype = dtype, .fast_accumulation = dtype == DType::kFloat8E4M3};
}

// What holds for every problem.
void expect_sound(const Matmul24Sm90Problem& problem, const Sm90Caps& caps) {
  const std::vector<Matmul24Sm90Plan> plans = candidate_plans_24_sm90(problem, caps);
  ASSERT_FALSE(plans.empty());
  EXPECT_EQ(plans.front(), rule_plan_24_sm90(problem, caps));
  EXPECT_LE(plans.size(), kMost24Candidates);
  EXPECT_EQ(plans, candidate_plans_24_sm90(problem, caps));
  for (auto plan = plans.begin(); plan != plans.end(); ++plan) {
    EXPECT_EQ(refusal_of_plan_24_sm90(problem, caps, *plan), "");
    EXPECT_TRUE(may_replace_rule_24_sm90(problem, caps, *plan)) << to_string(*plan);
    EXPECT_EQ(std::count(plans.begin(), plans.end(), *plan), 1) << to_string(*plan);
    const bool at_once = plan == plans.begin() || plan->blocks() <= 2 * caps.multiprocessors;
    EXPECT_TRUE(at_once) << to_string(*plan);
  }
}

int count(const std::vector<Matmul24Sm90Plan>& plans, Matmul24Kernel kernel) {
  return static_cast<int>(std::count_if(plans.begin(), plans.end(),
                                        [&](const Matmul24Sm90Plan& plan) { return plan.kernel == kernel; }));
}

TEST(Matmul24Sm90Candidates, ThoseOfTheBenchmarksPointsAreManyAndNotTooMany) {
  const Sm90Caps caps;
  for (const auto& [n, k] : {std::pair(6144, 4096), std::pair(4096, 4096), std::pair(28672, 4096),
                             std::pair(4096, 14336), std::pair(57344, 8192), std::pair(3584, 18944)}) {
    for (const std::int64_t m : {1, 16, 17, 32, 64, 128, 129, 256, 512, 8192}) {
      for (const DType dtype : kDTypes) {
        const Matmul24Sm90Problem problem = problem_of(m, n, k, dtype);
        expect_sound(problem, caps);
        const auto plans = candidate_plans_24_sm90(problem, caps);
        EXPECT_LT(plans.size(), kMost24Candidates)
            << "n " << n << " k " << k << " m " << m;  // none was cut off
        const int stream = count(plans, Matmul24Kernel::kStream);
        const int large = count(plans, Matmul24Kernel::kLarge);
        EXPECT_EQ(stream >= 6, m <= 128) << "n " << n << " k " << k << " m " << m << ": " << stream;
        EXPECT_EQ(stream == 0, m > 128);
        EXPECT_EQ(large, m >= 17 ? 6 : 0) << "n " << n << " k " << k << " m " << m;
      }
    }
  }
}

TEST(Matmul24Sm90Candidates, EveryProblemHasSome) {
  std::mt19937 random(7);
  for (int i = 0; i < 600; ++i) {
    Matmul24Sm90Problem problem{.m = 1 + static_cast<std::int64_t>(random() % (i % 2 == 0 ? 140 : 9000)),
                                .n = 1 + static_cast<std::int64_t>(random() % 40000),
                                .k = 4 * (1 + static_cast<std::int64_t>(random() % 9000)),
                                .dtype = kDTypes[i % 4],
                                .fast_accumulation = random() % 2 == 0};
    problem.swiglu = problem.n % 2 == 0 && random() % 4 == 0;
    expect_sound(problem, {.multiprocessors = i % 5 == 0 ? 114 : 132});
  }
  for (const std::int64_t m : {1, 100, 1000}) expect_sound(problem_of(m, 1, 4, DType::kInt8), {});
}

TEST(Matmul24Sm90Candidates, TheyDifferInEverythingThatCanBeChosen) {
  const auto plans = candidate_plans_24_sm90(problem_of(16, 4096, 4096, DType::kFloat8E4M3), {});
  const auto some = [&](auto holds) { return std::any_of(plans.begin(), plans.end(), holds); };
  using Plan = Matmul24Sm90Plan;
  for (const int cluster : {1, 2, 4, 8})
    EXPECT_TRUE(some([&](const Plan& p) { return p.cluster == cluster; })) << cluster;
  EXPECT_TRUE(some([](const Plan& p) { return p.clusters == 32; }));   // a row block each
  EXPECT_TRUE(some([](const Plan& p) { return p.clusters == 64; }));   // half of one
  EXPECT_TRUE(some([](const Plan& p) { return p.blocks() == 132; }));  // a block a multiprocessor
  EXPECT_TRUE(some([](const Plan& p) { return p.blocks() == 264; }));  // two
  EXPECT_TRUE(some([](const Plan& p) { return p.resident_x; }));
  EXPECT_TRUE(some([](const Plan& p) { return p.cluster == 4 && p.clusters == 32 && p.stages >= 15; }));
  EXPECT_TRUE(some([](const Plan& p) { return p.cluster == 4 && p.clusters == 32 && p.stages <= 10; }));
}

TEST(Matmul24Sm90Candidates, RowBlocksShareXWhereTokensAreMany) {
  for (const std::int64_t m : {32, 64, 128}) {
    const auto plans = candidate_plans_24_sm90(problem_of(m, 4096, 4096, DType::kFloat8E4M3), {});
    for (const int rows : {2, 4}) {
      EXPECT_EQ(std::any_of(plans.begin(), plans.end(), [&](const auto& p) { return p.group_rows == rows; }),
                m > 32);
    }
  }
}

// A change of the plan must not change how float8 is summed.
TEST(Matmul24Sm90Candidates, Float8IsSummedAsTheRuleDoes) {
  for (const std::int64_t m : {1, 32, 33, 128, 512}) {
    for (const bool fast : {false, true}) {
      Matmul24Sm90Problem problem{m, 4096, 4096, DType::kFloat8E4M3};
      problem.fast_accumulation = fast;
      for (const Matmul24Sm90Plan& plan : candidate_plans_24_sm90(problem, {})) {
        EXPECT_EQ(plan.promote, plan.kernel == Matmul24Kernel::kLarge ? !fast : m <= 32) << to_string(plan);
      }
    }
  }
}

}  // namespace
}  // namespace grille::kernels
