#include "grille/kernels/matmul_24_sm90_plan.h"

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/formats/two_four_sm90.h"
#include "grille/kernels/cuda/stream_24_layout.h"
#include "grille/kernels/matmul_24_sm90.h"

namespace grille::kernels {
namespace {

constexpr DType kDTypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3, DType::kInt8};

TEST(Matmul24Sm90Plan, FitsEveryShape) {
  const Sm90Caps caps;
  for (DType dtype : kDTypes) {
    const int size = static_cast<int>(dtype_size(dtype));
    for (std::int64_t m = 1; m <= 64; ++m) {
      for (std::int64_t n : {1, 128, 129, 4096, 6144, 28672, 128256}) {
        for (std::int64_t k : {4, 64, 4096, 14336, 28672}) {
          const Matmul24Sm90Plan plan = rule_plan_24_sm90({m, n, k, dtype}, caps);
          EXPECT_GE(plan.token_tile, m);
          EXPECT_TRUE(plan.token_tile == 8 || plan.token_tile < 2 * m) << to_string(plan);
          EXPECT_GE(plan.stages, 2);
          EXPECT_LE(plan.stages, kStreamMaxStages);
          const formats::TwoFourSm90Layout layout{n, k, size};
          EXPECT_LE(stream_shared_bytes(plan, layout.k_tiles(), size), caps.shared_memory_per_block);
          EXPECT_GE(plan.clusters, 1);
          EXPECT_LE(plan.blocks(), 2 * caps.multiprocessors);
          EXPECT_LE(plan.clusters, stream_row_groups(plan, layout.row_blocks()) * layout.k_tiles());
          EXPECT_LE(plan.cluster, kStreamMaxCluster);
          EXPECT_EQ(plan.cluster % plan.group_rows, 0);
          EXPECT_LE(plan.blocks() * 4, static_cast<std::int64_t>(kMatmul24CounterBytes));
        }
      }
    }
  }
}

// At or near the fastest of the plans tried on an H200.
TEST(Matmul24Sm90Plan, ClustersTakeWholeRowBlocksAndLongSharesTwoAMultiprocessor) {
  const Sm90Caps caps;
  const auto expect = [&](std::int64_t m, std::int64_t n, std::int64_t k, int clusters, int cluster,
                          bool resident) {
    const Matmul24Sm90Plan plan = rule_plan_24_sm90({m, n, k, DType::kFloat8E4M3}, caps);
    EXPECT_EQ(plan.clusters, clusters) << to_string(plan);
    EXPECT_EQ(plan.cluster, cluster) << to_string(plan);
    EXPECT_EQ(plan.group_rows, 1) << to_string(plan);
    EXPECT_EQ(plan.resident_x, resident) << to_string(plan);
    const int shared = stream_shared_bytes(plan, formats::TwoFourSm90Layout{n, k, 1}.k_tiles(), 1);
    const bool two_fit = shared + 1024 <= caps.shared_memory_per_multiprocessor / 2;
    EXPECT_EQ(two_fit, k < 14336) << to_string(plan);
  };
  expect(1, 4096, 4096, 32, 4, true);
  expect(64, 4096, 4096, 32, 4, false);
  expect(16, 6144, 4096, 48, 4, false);
  expect(32, 28672, 4096, 224, 1, false);
  expect(64, 28672, 4096, 224, 1, false);
  expect(16, 4096, 14336, 64, 2, false);
  expect(64, 4096, 14336, 64, 2, false);
}

TEST(Matmul24Sm90Plan, TheLargeKernelTakesOverAbove64Tokens) {
  for (DType dtype : kDTypes) {
    EXPECT_EQ(rule_plan_24_sm90({64, 4096, 4096, dtype}, {}).kernel, Matmul24Kernel::kStream);
    EXPECT_EQ(rule_plan_24_sm90({65, 4096, 4096, dtype}, {}).kernel, Matmul24Kernel::kLarge);
  }
}

// Parts of 128 tokens lie where the stages were, or behind them if those are few.
TEST(Matmul24Sm90Plan, SharedMemoryHoldsTheExchange) {
  for (int tile : {8, 16, 32, 64, 128}) {
    for (int splits : {1, 2, 4, 8}) {
      for (int stages : {2, 3, 4, 8}) {
        const Stream24Memory memory = stream_24_memory(tile, stages, stages, 1, splits);
        const int ring = stages * (10240 + tile * 128);
        EXPECT_EQ(memory.exchange, tile == 128 && splits > 1 ? 0 : ring);
        EXPECT_GE(memory.token_scales, ring);
        EXPECT_GE(memory.token_scales, memory.exchange + stream_24_exchange_bytes(tile, splits));
        EXPECT_EQ(memory.exchange % 16, 0);
        EXPECT_EQ(memory.token_scales % 8, 0);
        EXPECT_GE(memory.bytes, memory.token_scales);
      }
    }
  }
}

TEST(Matmul24Sm90Plan, TooLittleSharedMemoryIsAnError) {
  EXPECT_THROW(rule_plan_24_sm90({64, 4096, 4096, DType::kBFloat16}, {132, 49152, 65536}), Error);
}

TEST(Matmul24Sm90Plan, RangesOfClustersCoverAllSlabsOnce) {
  for (std::int64_t slabs : {1, 7, 132, 1536, 7168}) {
    for (int clusters : {1, 2, 33, 66, 132}) {
      EXPECT_EQ(stream_24_first_slab(slabs, clusters, 0), 0);
      EXPECT_EQ(stream_24_first_slab(slabs, clusters, clusters), slabs);
      for (int cluster = 0; cluster < clusters; ++cluster) {
        const std::int64_t begin = stream_24_first_slab(slabs, clusters, cluster);
        const std::int64_t end = stream_24_first_slab(slabs, clusters, cluster + 1);
        EXPECT_LE(end - begin, slabs / clusters + 1);
        for (std::int64_t slab = begin; slab < end; ++slab)
          EXPECT_EQ(stream_24_cluster_of(slabs, clusters, slab), cluster);
      }
    }
  }
}

TEST(Matmul24Sm90Plan, TheWorkspaceHoldsACopyOfXOnlyWhereItIsNeeded) {
  Matmul24Sm90Problem problem{3, 4096, 100, DType::kBFloat16};
  const Matmul24Sm90Plan plan = rule_plan_24_sm90(problem, {});
  const std::size_t aligned = matmul_24_sm90_workspace(problem, plan);
  problem.x_aligned = false;
  EXPECT_EQ(matmul_24_sm90_workspace(problem, plan), aligned + 3 * 256);
}

TEST(Matmul24Sm90, ACpuStreamIsAnError) {
  EXPECT_THROW(matmul_24_sm90(Matmul24Sm90Args{}), Error);
  EXPECT_THROW(sm90_caps({}), Error);
}

TEST(Matmul24Sm90Plan, PrintsItself) {
  Matmul24Sm90Plan plan;
  plan.token_tile = 16;
  plan.stages = 6;
  plan.cluster = 4;
  plan.clusters = 33;
  EXPECT_EQ(to_string(plan), "stream 128 rows x 16 tokens, 6 stages, 33 clusters of 4");
  plan.group_rows = 2;
  EXPECT_EQ(to_string(plan), "stream 128 rows x 16 tokens, 6 stages, 33 clusters of 4, x for 2 row blocks");
}

}  // namespace
}  // namespace grille::kernels
