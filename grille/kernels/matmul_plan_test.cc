#include "grille/kernels/matmul_plan.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace grille::kernels {
namespace {

MatmulPlan plan(std::int64_t m, DType x, DType weight, Isa isa, std::int64_t k = 4096) {
  return plan_matmul({.m = m, .n = 4096, .k = k, .x = x, .weight = weight}, isa);
}

TEST(MatmulPlan, MultipliesBFloat16PairsOnlyWhereBothSidesFit) {
  const auto compute = [](DType x, DType weight, Isa isa) { return plan(1, x, weight, isa).compute; };
  for (DType x : {DType::kBFloat16, DType::kFloat8E4M3}) {
    for (DType w : {DType::kBFloat16, DType::kFloat8E4M3}) {
      EXPECT_EQ(compute(x, w, Isa::kAvx512), ComputeClass::kBFloat16Pairs);
      EXPECT_EQ(compute(x, w, Isa::kAvx2), ComputeClass::kFloat32);
      EXPECT_EQ(compute(x, w, Isa::kScalar), ComputeClass::kFloat32);
    }
  }
  EXPECT_EQ(compute(DType::kFloat32, DType::kBFloat16, Isa::kAvx512), ComputeClass::kFloat32);
  EXPECT_EQ(compute(DType::kBFloat16, DType::kFloat16, Isa::kAvx512), ComputeClass::kFloat32);
}

TEST(MatmulPlan, StreamsWhileOneTileHoldsAllTokensThenExpandsPanels) {
  for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    const int largest = max_token_tile(isa);
    for (std::int64_t m = 0; m <= 100; ++m) {
      const MatmulPlan p = plan(m, DType::kBFloat16, DType::kBFloat16, isa);
      EXPECT_EQ(p.expand_panel, m > largest) << to_string(p);
      EXPECT_GE(p.token_tile, 1);
      EXPECT_LE(p.token_tile, largest);
      if (!p.expand_panel && m > 0) {
        EXPECT_EQ(p.token_tile, m);
      }
    }
  }
}

TEST(MatmulPlan, TilesAreBalanced) {
  EXPECT_EQ(plan(7, DType::kBFloat16, DType::kBFloat16, Isa::kAvx512).token_tile, 4);
  EXPECT_EQ(plan(16, DType::kBFloat16, DType::kBFloat16, Isa::kAvx512).token_tile, 6);
  EXPECT_EQ(plan(2048, DType::kBFloat16, DType::kBFloat16, Isa::kAvx512).token_tile, 6);
}

TEST(MatmulPlan, PanelsAreWholeRowGroupsWithinTheirShareOfTheCache) {
  for (std::int64_t k : {1, 64, 576, 4096, 14336, 1000000}) {
    const MatmulPlan p = plan(64, DType::kBFloat16, DType::kBFloat16, Isa::kAvx512, k);
    EXPECT_EQ(p.panel_rows % 4, 0);
    EXPECT_GE(p.panel_rows, 4);
    EXPECT_LE(p.panel_rows, 64);
    if (p.panel_rows > 4) {
      EXPECT_LE(p.panel_rows * std::min<std::int64_t>(k, 4096) * 2, 512 * 1024);
    }
  }
}

TEST(MatmulPlan, PrintsItself) {
  EXPECT_EQ(to_string(plan(64, DType::kBFloat16, DType::kFloat8E4M3, Isa::kAvx512)),
            "avx512 bfloat16-pairs panel of 64 rows x 6 tokens");
  EXPECT_EQ(to_string(plan(1, DType::kFloat32, DType::kBFloat16, Isa::kAvx2)),
            "avx2 float32 stream of 64 rows x 1 tokens");
}

}  // namespace
}  // namespace grille::kernels
