#include "grille/kernels/matmul_24_plan_table.h"

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/kernels/matmul_24_sm90.h"
#include "grille/kernels/matmul_24_sm90_candidates.h"

namespace grille::kernels {
namespace {

constexpr DType kFloat8 = DType::kFloat8E4M3;

Matmul24Sm90Problem problem_of(std::int64_t m, DType dtype = kFloat8) {
  return {.m = m, .n = 4096, .k = 4096, .dtype = dtype, .fast_accumulation = true};
}

// A plan that the rule does not choose.
Matmul24Sm90Plan other_plan(std::int64_t m, DType dtype = kFloat8) {
  return candidate_plans_24_sm90(problem_of(m, dtype), {}).back();
}

Matmul24PlanEntry entry_of(std::int64_t m, DType dtype = kFloat8) {
  return {132, dtype, 4096, 4096, m, other_plan(m, dtype)};
}

TEST(Matmul24PlanTable, WithoutOneTheRuleHolds) {
  const Matmul24PlanTable none;
  for (const std::int64_t m : {1, 64, 512}) {
    EXPECT_EQ(none.find(problem_of(m), {}), nullptr);
    EXPECT_EQ(plan_matmul_24_sm90(problem_of(m), {}, &none), rule_plan_24_sm90(problem_of(m), {}));
  }
}

TEST(Matmul24PlanTable, AnEntryTakesTheRulesPlace) {
  const Matmul24PlanTable table({entry_of(64), entry_of(16), entry_of(512)});
  for (const std::int64_t m : {16, 64, 512}) {
    ASSERT_NE(other_plan(m), rule_plan_24_sm90(problem_of(m), {}));
    EXPECT_EQ(plan_matmul_24_sm90(problem_of(m), {}, &table), other_plan(m)) << m;
  }
  EXPECT_EQ(table.entries().front().m, 16);
  EXPECT_EQ(table.entries().back().m, 512);
}

TEST(Matmul24PlanTable, AnEntryHoldsDownToTheNextOneAndToHalfItsTokens) {
  Matmul24PlanEntry low = entry_of(48);
  const Matmul24PlanTable table({entry_of(64), low, entry_of(16), entry_of(1)});
  const auto found = [&](std::int64_t m) { return table.find(problem_of(m), {}); };
  EXPECT_NE(found(1), nullptr);
  for (const std::int64_t m : {2, 8, 17, 24, 65, 128}) EXPECT_EQ(found(m), nullptr) << m;
  for (const std::int64_t m : {9, 16}) EXPECT_EQ(*found(m), other_plan(16)) << m;
  EXPECT_EQ(*found(48), low.plan);
  EXPECT_EQ(*found(49), other_plan(64));
}

TEST(Matmul24PlanTable, AnotherDeviceTypeOrShapeIsNotInIt) {
  const Matmul24PlanTable table({entry_of(64)});
  EXPECT_NE(table.find(problem_of(64), {}), nullptr);
  EXPECT_EQ(table.find(problem_of(64), {.multiprocessors = 114}), nullptr);
  EXPECT_EQ(table.find(problem_of(64, DType::kInt8), {}), nullptr);
  Matmul24Sm90Problem problem = problem_of(64);
  problem.n = 4224;
  EXPECT_EQ(table.find(problem, {}), nullptr);
  problem = problem_of(64);
  problem.k = 4160;
  EXPECT_EQ(table.find(problem, {}), nullptr);
}

TEST(Matmul24PlanTable, APlanThatCannotRunOrSumsDifferentlyIsPassedOver) {
  for (auto change :
       {+[](Matmul24Sm90Plan& p) { p.cluster = 3; }, +[](Matmul24Sm90Plan& p) { p.stages = 0; },
        +[](Matmul24Sm90Plan& p) { p.stages = 1 << 20; }, +[](Matmul24Sm90Plan& p) { p.clusters = -1; },
        +[](Matmul24Sm90Plan& p) { p.clusters = 2000000000; }, +[](Matmul24Sm90Plan& p) { p.token_tile = 8; },
        +[](Matmul24Sm90Plan& p) { p.promote = true; }, +[](Matmul24Sm90Plan& p) { p.row_tile = 64; },
        +[](Matmul24Sm90Plan& p) { p.kernel = static_cast<Matmul24Kernel>(7); }}) {
    Matmul24PlanEntry entry = entry_of(64);
    ASSERT_EQ(entry.plan.kernel, Matmul24Kernel::kStream);
    change(entry.plan);
    const Matmul24PlanTable table({entry});
    EXPECT_EQ(table.find(problem_of(64), {}), nullptr) << to_string(entry.plan);
    EXPECT_EQ(plan_matmul_24_sm90(problem_of(64), {}, &table), rule_plan_24_sm90(problem_of(64), {}));
  }
  // Clusters that wait for each other and cannot all run.
  Matmul24PlanEntry entry = entry_of(512);
  entry.plan = {.kernel = Matmul24Kernel::kLarge,
                .row_tile = 128,
                .token_tile = 128,
                .stages = 0,
                .cluster = 2,
                .clusters = 66,
                .split = true};
  EXPECT_NE(Matmul24PlanTable({entry}).find(problem_of(512), {}), nullptr);
  entry.plan.clusters = 67;
  EXPECT_EQ(Matmul24PlanTable({entry}).find(problem_of(512), {}), nullptr);
}

// Measured with sums that stay in the tensor cores; who does not want them gets the rule's plan.
TEST(Matmul24PlanTable, FastAccumulationIsNotForThoseWhoDidNotAskForIt) {
  const Matmul24PlanTable table({entry_of(512), entry_of(64)});
  ASSERT_EQ(other_plan(512).kernel, Matmul24Kernel::kLarge);
  Matmul24Sm90Problem problem = problem_of(512);
  problem.fast_accumulation = false;
  EXPECT_EQ(table.find(problem, {}), nullptr);
  EXPECT_TRUE(plan_matmul_24_sm90(problem, {}, &table).promote);
  // The streaming kernel sums one way.
  problem.m = 64;
  EXPECT_NE(table.find(problem, {}), nullptr);
  // It has no SwiGLU.
  problem.swiglu = true;
  EXPECT_EQ(table.find(problem, {}), nullptr);
}

TEST(Matmul24PlanTable, TwoPlansForOneProblemAreAnError) {
  EXPECT_THROW(Matmul24PlanTable({entry_of(64), entry_of(64)}), Error);
  EXPECT_NO_THROW(Matmul24PlanTable({entry_of(64), entry_of(64, DType::kInt8)}));
}

TEST(Matmul24PlanTable, TheBuiltInPlansCanRun) {
  for (const Matmul24PlanEntry& e : built_in_24_plans().entries()) {
    const Matmul24Sm90Problem problem{
        .m = e.m, .n = e.n, .k = e.k, .dtype = e.dtype, .fast_accumulation = true};
    EXPECT_TRUE(may_replace_rule_24_sm90(problem, {.multiprocessors = e.multiprocessors}, e.plan))
        << to_string(e.plan) << " for " << e.m << " x " << e.n << " x " << e.k;
  }
}

}  // namespace
}  // namespace grille::kernels
