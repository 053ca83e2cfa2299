// Written by tools/built_in_plans.py from files of `grille bench linear --tune`.
#include "grille/kernels/matmul_24_plan_table.h"

namespace grille::kernels {

namespace {

using enum DType;

constexpr Matmul24Sm90Plan stream(int token_tile, int stages, int cluster, int group_rows, int clusters,
                                  bool resident_x, bool promote) {
  return {.kernel = Matmul24Kernel::kStream,
          .row_tile = 128,
          .token_tile = token_tile,
          .stages = stages,
          .cluster = cluster,
          .group_rows = group_rows,
          .clusters = clusters,
          .resident_x = resident_x,
          .promote = promote};
}

constexpr Matmul24Sm90Plan large(int row_tile, int token_tile, int cluster, int clusters, bool promote,
                                 bool split) {
  return {.kernel = Matmul24Kernel::kLarge,
          .row_tile = row_tile,
          .token_tile = token_tile,
          .stages = 0,
          .cluster = cluster,
          .clusters = clusters,
          .promote = promote,
          .split = split};
}

}  // namespace

const Matmul24PlanTable& built_in_24_plans() {
  static const Matmul24PlanTable table(std::vector<Matmul24PlanEntry>{
      // clang-format off
      // NVIDIA H200, driver 580.159.04, CUDA 13.0: multiprocessors, dtype, n, k, m, plan
      {132, kBFloat16, 4096, 4096, 1, stream(8, 10, 2, 1, 64, false, false)},
      {132, kBFloat16, 4096, 4096, 16, stream(16, 9, 4, 1, 32, false, false)},
      {132, kBFloat16, 4096, 4096, 32, stream(32, 7, 4, 1, 32, false, false)},
      {132, kBFloat16, 4096, 4096, 64, stream(64, 4, 4, 1, 32, false, false)},
      {132, kBFloat16, 4096, 4096, 128, large(128, 64, 2, 66, false, true)},
      {132, kBFloat16, 4096, 4096, 256, large(128, 64, 2, 64, false, false)},
      {132, kBFloat16, 4096, 4096, 512, large(128, 128, 2, 64, false, false)},
      {132, kBFloat16, 4096, 14336, 1, stream(8, 20, 2, 1, 64, false, false)},
      {132, kBFloat16, 4096, 14336, 16, stream(16, 19, 2, 1, 64, false, false)},
      {132, kBFloat16, 4096, 14336, 32, stream(32, 16, 2, 1, 64, false, false)},
      {132, kBFloat16, 4096, 14336, 64, large(128, 64, 2, 66, false, true)},
      {132, kBFloat16, 4096, 14336, 128, large(128, 128, 2, 66, false, true)},
      {132, kBFloat16, 4096, 14336, 256, large(128, 128, 2, 66, false, true)},
      {132, kBFloat16, 4096, 14336, 512, large(128, 128, 2, 64, false, false)},
      {132, kBFloat16, 6144, 4096, 1, stream(8, 10, 4, 1, 48, false, false)},
      {132, kBFloat16, 6144, 4096, 16, stream(16, 9, 4, 1, 48, false, false)},
      {132, kBFloat16, 6144, 4096, 32, stream(32, 7, 4, 1, 48, false, false)},
      {132, kBFloat16, 6144, 4096, 64, stream(64, 4, 4, 1, 48, false, false)},
      {132, kBFloat16, 6144, 4096, 128, large(128, 64, 2, 48, false, false)},
      {132, kBFloat16, 6144, 4096, 256, large(128, 128, 2, 48, false, false)},
      {132, kBFloat16, 6144, 4096, 512, large(128, 256, 2, 48, false, false)},
      {132, kBFloat16, 28672, 4096, 1, stream(8, 10, 4, 1, 56, false, false)},
      {132, kBFloat16, 28672, 4096, 16, stream(16, 9, 4, 1, 56, false, false)},
      {132, kBFloat16, 28672, 4096, 32, stream(32, 7, 4, 1, 56, false, false)},
      {132, kBFloat16, 28672, 4096, 64, stream(64, 5, 1, 1, 224, false, false)},
      {132, kBFloat16, 28672, 4096, 128, large(128, 128, 2, 66, false, false)},
      {132, kBFloat16, 28672, 4096, 256, large(128, 256, 2, 66, false, false)},
      {132, kBFloat16, 28672, 4096, 512, large(128, 256, 2, 66, false, false)},
      {132, kFloat8E4M3, 4096, 4096, 1, stream(8, 20, 2, 1, 32, true, true)},
      {132, kFloat8E4M3, 4096, 4096, 16, stream(16, 18, 2, 1, 32, true, true)},
      {132, kFloat8E4M3, 4096, 4096, 32, stream(32, 14, 2, 1, 32, false, true)},
      {132, kFloat8E4M3, 4096, 4096, 64, stream(64, 4, 4, 1, 32, false, false)},
      {132, kFloat8E4M3, 4096, 4096, 128, large(128, 64, 2, 32, false, false)},
      {132, kFloat8E4M3, 4096, 4096, 256, large(128, 64, 2, 64, false, false)},
      {132, kFloat8E4M3, 4096, 4096, 512, large(128, 128, 2, 64, false, false)},
      {132, kFloat8E4M3, 4096, 14336, 1, stream(8, 9, 2, 1, 64, false, true)},
      {132, kFloat8E4M3, 4096, 14336, 16, stream(16, 18, 2, 1, 64, false, true)},
      {132, kFloat8E4M3, 4096, 14336, 32, stream(32, 6, 4, 1, 32, false, true)},
      {132, kFloat8E4M3, 4096, 14336, 64, large(128, 64, 2, 66, false, true)},
      {132, kFloat8E4M3, 4096, 14336, 128, large(128, 64, 2, 66, false, true)},
      {132, kFloat8E4M3, 4096, 14336, 256, large(128, 128, 2, 66, false, true)},
      {132, kFloat8E4M3, 4096, 14336, 512, large(128, 128, 2, 64, false, false)},
      {132, kFloat8E4M3, 6144, 4096, 1, stream(8, 9, 4, 1, 48, false, true)},
      {132, kFloat8E4M3, 6144, 4096, 16, stream(16, 8, 4, 1, 48, false, true)},
      {132, kFloat8E4M3, 6144, 4096, 32, stream(32, 6, 4, 1, 48, false, true)},
      {132, kFloat8E4M3, 6144, 4096, 64, stream(64, 4, 4, 1, 48, false, false)},
      {132, kFloat8E4M3, 6144, 4096, 128, large(128, 64, 2, 48, false, false)},
      {132, kFloat8E4M3, 6144, 4096, 256, large(128, 128, 2, 48, false, false)},
      {132, kFloat8E4M3, 6144, 4096, 512, large(128, 256, 2, 48, false, false)},
      {132, kFloat8E4M3, 28672, 4096, 1, stream(8, 9, 2, 1, 112, false, true)},
      {132, kFloat8E4M3, 28672, 4096, 16, stream(16, 8, 2, 1, 112, false, true)},
      {132, kFloat8E4M3, 28672, 4096, 32, stream(32, 6, 1, 1, 224, false, true)},
      {132, kFloat8E4M3, 28672, 4096, 64, stream(64, 5, 1, 1, 224, false, false)},
      {132, kFloat8E4M3, 28672, 4096, 128, large(128, 128, 2, 66, false, false)},
      {132, kFloat8E4M3, 28672, 4096, 256, large(128, 256, 2, 66, false, false)},
      {132, kFloat8E4M3, 28672, 4096, 512, large(128, 256, 2, 66, false, false)},
      {132, kInt8, 4096, 4096, 1, stream(8, 20, 2, 1, 32, true, false)},
      {132, kInt8, 4096, 4096, 16, stream(16, 18, 2, 1, 32, true, false)},
      {132, kInt8, 4096, 4096, 32, stream(32, 14, 2, 1, 32, false, false)},
      {132, kInt8, 4096, 4096, 64, stream(64, 4, 4, 1, 32, false, false)},
      {132, kInt8, 4096, 4096, 128, large(128, 64, 2, 32, false, false)},
      {132, kInt8, 4096, 4096, 256, large(128, 64, 2, 64, false, false)},
      {132, kInt8, 4096, 4096, 512, large(128, 128, 2, 64, false, false)},
      {132, kInt8, 4096, 14336, 1, stream(8, 9, 2, 1, 64, false, false)},
      {132, kInt8, 4096, 14336, 16, stream(16, 18, 2, 1, 64, false, false)},
      {132, kInt8, 4096, 14336, 32, stream(32, 6, 4, 1, 32, false, false)},
      {132, kInt8, 4096, 14336, 64, large(128, 64, 2, 66, false, true)},
      {132, kInt8, 4096, 14336, 128, large(128, 64, 2, 66, false, true)},
      {132, kInt8, 4096, 14336, 256, large(128, 128, 2, 66, false, true)},
      {132, kInt8, 4096, 14336, 512, large(128, 128, 2, 64, false, false)},
      {132, kInt8, 6144, 4096, 1, stream(8, 9, 4, 1, 48, false, false)},
      {132, kInt8, 6144, 4096, 16, stream(16, 8, 4, 1, 48, false, false)},
      {132, kInt8, 6144, 4096, 32, stream(32, 6, 4, 1, 48, false, false)},
      {132, kInt8, 6144, 4096, 64, stream(64, 4, 4, 1, 48, false, false)},
      {132, kInt8, 6144, 4096, 128, large(128, 64, 2, 48, false, false)},
      {132, kInt8, 6144, 4096, 256, large(128, 128, 2, 48, false, false)},
      {132, kInt8, 6144, 4096, 512, large(128, 256, 2, 48, false, false)},
      {132, kInt8, 28672, 4096, 1, stream(8, 9, 2, 1, 112, false, false)},
      {132, kInt8, 28672, 4096, 16, stream(16, 8, 2, 1, 112, false, false)},
      {132, kInt8, 28672, 4096, 32, stream(32, 6, 1, 1, 224, false, false)},
      {132, kInt8, 28672, 4096, 64, stream(64, 5, 1, 1, 224, false, false)},
      {132, kInt8, 28672, 4096, 128, large(128, 128, 2, 66, false, false)},
      {132, kInt8, 28672, 4096, 256, large(128, 256, 2, 66, false, false)},
      {132, kInt8, 28672, 4096, 512, large(128, 256, 2, 66, false, false)},
      // clang-format on
  });
  return table;
}

}  // namespace grille::kernels
