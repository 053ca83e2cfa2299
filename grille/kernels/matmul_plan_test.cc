#include "grille/kernels/matmul_plan.h"

#include <algorithm>
#include <utility>

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
      EXPECT_EQ(compute(x, w, Isa::kAvx512),
                w == DType::kBFloat16 ? ComputeClass::kBFloat16Pairs : ComputeClass::kFloat8Pairs);
      EXPECT_EQ(compute(x, w, Isa::kAmx), compute(x, w, Isa::kAvx512)) << "a single token";
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

TEST(MatmulPlan, SlowPairsAreSplitFromTwoTokensOn) {
  const auto slow = [](std::int64_t m, DType x, DType weight) {
    return plan_matmul({.m = m, .n = 4096, .k = 4096, .x = x, .weight = weight}, Isa::kAvx512, true);
  };
  EXPECT_EQ(slow(1, DType::kBFloat16, DType::kBFloat16).compute, ComputeClass::kBFloat16Pairs);
  EXPECT_EQ(slow(2, DType::kBFloat16, DType::kBFloat16).compute, ComputeClass::kBFloat16Split);
  EXPECT_EQ(slow(64, DType::kBFloat16, DType::kFloat8E4M3).compute, ComputeClass::kFloat8Split);
  EXPECT_EQ(slow(64, DType::kFloat32, DType::kFloat8E4M3).compute, ComputeClass::kFloat32);
  // 512 KiB of floats; 1 MiB where the tokens take more than 2.
  EXPECT_EQ(slow(64, DType::kBFloat16, DType::kBFloat16).panel_rows, 32);
  EXPECT_EQ(slow(256, DType::kBFloat16, DType::kBFloat16).panel_rows, 64);
  EXPECT_EQ(plan_matmul({.m = 64, .n = 4096, .k = 4096}, Isa::kAmx, true).compute,
            ComputeClass::kBFloat16Tiles);
}

TEST(MatmulPlan, TileRegistersTakeEightTokensAndMore) {
  for (DType w : {DType::kBFloat16, DType::kFloat8E4M3}) {
    EXPECT_FALSE(uses_tiles(plan(7, DType::kBFloat16, w, Isa::kAmx).compute));
    EXPECT_FALSE(uses_tiles(plan(64, DType::kFloat32, w, Isa::kAmx).compute));
    EXPECT_FALSE(uses_tiles(plan(64, DType::kBFloat16, w, Isa::kAvx512).compute));
    for (std::int64_t m : {8, 100}) {
      const MatmulPlan p = plan(m, DType::kBFloat16, w, Isa::kAmx);
      EXPECT_TRUE(uses_tiles(p.compute));
      EXPECT_EQ(p.token_tile, 16);
      EXPECT_EQ(p.row_group, 16);
      EXPECT_EQ(p.panel_rows % p.row_group, 0);
      EXPECT_TRUE(p.expand_panel);
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

// The rows and tokens of every block of a grid, cut as matmul.cc cuts them.
struct Largest {
  std::int64_t rows = 0, tokens = 0;
};
Largest largest_block(const MatmulGrid& grid, const MatmulPlan& p, std::int64_t m, std::int64_t n) {
  const std::int64_t groups = (n + p.row_group - 1) / p.row_group,
                     tiles = (m + p.token_tile - 1) / p.token_tile;
  Largest largest;
  for (std::int64_t i = 0; i < grid.row_parts; ++i) {
    largest.rows = std::max(largest.rows,
                            p.row_group * (groups * (i + 1) / grid.row_parts - groups * i / grid.row_parts));
  }
  for (std::int64_t i = 0; i < grid.token_parts; ++i) {
    largest.tokens = std::max(
        largest.tokens, p.token_tile * (tiles * (i + 1) / grid.token_parts - tiles * i / grid.token_parts));
  }
  return largest;
}

TEST(MatmulPlan, GridsKeepEveryThreadBusy) {
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{576, 576},
                             {960, 576},
                             {3072, 576},
                             {576, 1536},
                             {4096, 4096},
                             {14336, 4096}}) {
    for (std::int64_t threads = 1; threads <= 64; ++threads) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const MatmulPlan p =
            plan_matmul({.m = 2048, .n = n, .k = k, .x = dtype, .weight = dtype}, Isa::kAvx512);
        const MatmulGrid grid = plan_grid(p, 2048, n, threads);
        EXPECT_LE(grid.parts(), threads);
        const Largest largest = largest_block(grid, p, 2048, n);
        const double ideal = 2048.0 * static_cast<double>(n) / static_cast<double>(threads);
        // Primes are the worst: 59 threads on 576 rows of 2048 tokens are used as 58.
        EXPECT_LE(static_cast<double>(largest.rows * largest.tokens), 1.1 * ideal)
            << n << " rows, " << threads << " threads: " << grid.row_parts << " x " << grid.token_parts;
      }
    }
  }
}

TEST(MatmulPlan, GridsCutTokensOnlyWherePanelsAreShared) {
  const MatmulPlan few = plan(4, DType::kBFloat16, DType::kBFloat16, Isa::kAvx512);
  EXPECT_EQ(plan_grid(few, 4, 4096, 16).row_parts, 16);
  EXPECT_EQ(plan_grid(few, 4, 4096, 16).token_parts, 1);
  // Decoding a row twice costs more than reading a few tokens twice.
  const MatmulPlan some = plan(64, DType::kBFloat16, DType::kBFloat16, Isa::kAvx512);
  EXPECT_EQ(plan_grid(some, 64, 4096, 2).token_parts, 1);
  // 144 groups of rows do not go into 100 threads.
  const MatmulPlan many = plan(2048, DType::kFloat32, DType::kFloat32, Isa::kAvx512, 576);
  EXPECT_GT(plan_grid(many, 2048, 576, 100).token_parts, 1);
}

TEST(MatmulPlan, PrintsItself) {
  EXPECT_EQ(to_string(plan(64, DType::kBFloat16, DType::kFloat8E4M3, Isa::kAvx512)),
            "avx512 float8-pairs panel of 64 rows x 6 tokens");
  EXPECT_EQ(to_string(plan(1, DType::kFloat32, DType::kBFloat16, Isa::kAvx2)),
            "avx2 float32 stream of 64 rows x 1 tokens");
  EXPECT_EQ(to_string(plan(65, DType::kBFloat16, DType::kFloat8E4M3, Isa::kAmx)),
            "amx float8-tiles panel of 256 rows x 16 tokens");
}

}  // namespace
}  // namespace grille::kernels
