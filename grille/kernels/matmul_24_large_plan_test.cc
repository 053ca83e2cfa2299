#include "grille/kernels/matmul_24_large_plan.h"

#include <random>

#include <gtest/gtest.h>

namespace grille::kernels {
namespace {

Matmul24Sm90Problem fast_float8(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.m = m, .n = n, .k = k, .dtype = DType::kFloat8E4M3, .fast_accumulation = true};
}

TEST(Matmul24LargePlan, HasAKernelForEveryProblem) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    constexpr DType kTypes[] = {DType::kFloat8E4M3, DType::kInt8, DType::kBFloat16, DType::kFloat16};
    const Matmul24Sm90Problem problem{.m = 1 + static_cast<std::int64_t>(random() % 20000),
                                      .n = 1 + static_cast<std::int64_t>(random() % 30000),
                                      .k = 4 * (1 + static_cast<std::int64_t>(random() % 8000)),
                                      .dtype = kTypes[i % 4],
                                      .fast_accumulation = random() % 2 == 0};
    for (int multiprocessors : {132, 114, 2, 1}) {
      const Matmul24Sm90Plan plan = plan_matmul_24_large(problem, {.multiprocessors = multiprocessors});
      EXPECT_TRUE(is_large_24_plan(problem, plan)) << to_string(plan);
      EXPECT_LE(plan.clusters, std::max(1, multiprocessors / 2));
      EXPECT_EQ(plan.promote, problem.dtype == DType::kFloat8E4M3 && !problem.fast_accumulation);
    }
  }
}

TEST(Matmul24LargePlan, LargeProblemsTakeTheLargestTiles) {
  for (std::int64_t m : {4096, 8192, 16384}) {
    const Matmul24Sm90Plan plan = plan_matmul_24_large(fast_float8(m, 8192, 8192), {});
    EXPECT_GE(plan.row_tile * plan.token_tile, 128 * 256) << to_string(plan);
    EXPECT_EQ(plan.clusters, 66);
  }
}

TEST(Matmul24LargePlan, FewTokensTakeSmallTiles) {
  const Matmul24Sm90Plan plan = plan_matmul_24_large(fast_float8(130, 4096, 4096), {});
  EXPECT_LE(plan.token_tile, 128) << to_string(plan);
}

// Tiles that are split are the partial wave and a full one.
TEST(Matmul24LargePlan, SplitTiles) {
  EXPECT_EQ(large_24_split_tiles(66, 66), 0);
  EXPECT_EQ(large_24_split_tiles(16, 66), 16);
  EXPECT_EQ(large_24_split_tiles(67, 66), 67);
  EXPECT_EQ(large_24_split_tiles(140, 66), 74);
  EXPECT_EQ(large_24_split_tiles(1024, 66), 100);
}

TEST(Matmul24LargePlan, PlansWithoutAKernel) {
  const Matmul24Sm90Problem problem = fast_float8(512, 4096, 4096);
  const Matmul24Sm90Plan good = plan_matmul_24_large(problem, {});
  ASSERT_TRUE(is_large_24_plan(problem, good));
  for (auto change :
       {+[](Matmul24Sm90Plan& p) { p.token_tile = 96; }, +[](Matmul24Sm90Plan& p) { p.cluster = 4; },
        +[](Matmul24Sm90Plan& p) { p.row_tile = 64; }, +[](Matmul24Sm90Plan& p) { p.clusters = 0; },
        +[](Matmul24Sm90Plan& p) { p.clusters = 1 << 20; }}) {
    Matmul24Sm90Plan plan = good;
    change(plan);
    EXPECT_FALSE(is_large_24_plan(problem, plan)) << to_string(plan);
  }
}

}  // namespace
}  // namespace grille::kernels
