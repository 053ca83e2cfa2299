#include "grille/kernels/matmul_24_large_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "grille/formats/two_four_sm90.h"

namespace grille::kernels {
namespace {

constexpr int kClusterRows = 2;  // blocks that share x

// A tile that there are kernels for, and what it costs on an H200, in microseconds.
struct TileCost {
  int row_tile;
  int token_tile;
  bool splits;   // whether clusters can share a tile's k
  bool promote;  // float8 alone
  double k_tile;
  double tile;  // epilogue, and what of the pipeline's filling is not hidden
};

constexpr TileCost kTiles[] = {
    {128, 256, false, false, 0.500, 2.4}, {256, 192, false, false, 0.740, 4.0},
    {128, 128, true, false, 0.290, 1.5},  {128, 64, true, false, 0.235, 1.0},
    {128, 128, true, true, 0.375, 1.5},
};

constexpr double kLaunch = 4.0;
constexpr double kSplit = 8.0;  // to hand over sums and to add them

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t cluster_tiles(const Matmul24Sm90Problem& problem, int row_tile, int token_tile) {
  return ceil_div(problem.n, std::int64_t{row_tile} * kClusterRows) * ceil_div(problem.m, token_tile);
}

std::int64_t k_tiles(const Matmul24Sm90Problem& problem) {
  return formats::TwoFourSm90Layout{problem.n, problem.k, static_cast<int>(dtype_size(problem.dtype))}
      .k_tiles();
}

std::int64_t most_clusters(const Sm90Caps& caps) {
  return std::max<std::int64_t>(1, caps.multiprocessors / kClusterRows);
}

bool wants_promotion(const Matmul24Sm90Problem& problem) {
  return problem.dtype == DType::kFloat8E4M3 && !problem.fast_accumulation;
}

double estimate(const Matmul24Sm90Problem& problem, const TileCost& tile, bool split, const Sm90Caps& caps) {
  const auto tiles = static_cast<double>(cluster_tiles(problem, tile.row_tile, tile.token_tile));
  const auto clusters = static_cast<double>(most_clusters(caps));
  const double each = static_cast<double>(k_tiles(problem)) * tile.k_tile + tile.tile;
  const double waves = tiles / clusters;
  return kLaunch + (split ? waves * each + kSplit : std::ceil(waves) * each);
}

Matmul24Sm90Plan make_plan(const Matmul24Sm90Problem& problem, const TileCost& tile, bool split,
                           const Sm90Caps& caps) {
  const std::int64_t tiles = cluster_tiles(problem, tile.row_tile, tile.token_tile);
  const std::int64_t useful = split ? tiles * k_tiles(problem) : tiles;
  return {.kernel = Matmul24Kernel::kLarge,
          .row_tile = tile.row_tile,
          .token_tile = tile.token_tile,
          .stages = 0,
          .cluster = kClusterRows,
          .clusters = static_cast<int>(std::min(useful, most_clusters(caps))),
          .promote = tile.promote,
          .split = split};
}

}  // namespace

Matmul24Sm90Plan plan_matmul_24_large(const Matmul24Sm90Problem& problem, const Sm90Caps& caps) {
  Matmul24Sm90Plan best;
  double least = std::numeric_limits<double>::infinity();
  for (const TileCost& tile : kTiles) {
    if (tile.promote != wants_promotion(problem)) continue;
    for (bool split : {false, true}) {
      if (split && !tile.splits) continue;
      const double time = estimate(problem, tile, split, caps);
      if (time >= least) continue;
      least = time;
      best = make_plan(problem, tile, split, caps);
    }
  }
  return best;
}

std::vector<Matmul24Sm90Plan> candidate_plans_24_large(const Matmul24Sm90Problem& problem,
                                                       const Sm90Caps& caps) {
  std::vector<Matmul24Sm90Plan> plans;
  for (const TileCost& tile : kTiles) {
    if (tile.promote != wants_promotion(problem)) continue;
    for (bool split : {false, true}) {
      if (!split || tile.splits) plans.push_back(make_plan(problem, tile, split, caps));
    }
  }
  return plans;
}

bool is_large_24_plan(const Matmul24Sm90Problem& problem, const Matmul24Sm90Plan& plan) {
  for (const TileCost& tile : kTiles) {
    if (tile.row_tile != plan.row_tile || tile.token_tile != plan.token_tile ||
        tile.promote != plan.promote || (plan.split && !tile.splits))
      continue;
    const std::int64_t tiles = cluster_tiles(problem, plan.row_tile, plan.token_tile);
    const std::int64_t useful = plan.split ? tiles * k_tiles(problem) : tiles;
    // What the kernel computes with 32 bits.
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    const bool fits = tiles <= kMost && problem.m < kMost - 256 && problem.n < kMost - 512 &&
                      2LL * plan.clusters * (plan.clusters + 1) * k_tiles(problem) <= kMost;
    return fits && plan.cluster == kClusterRows && plan.clusters >= 1 && plan.clusters <= useful &&
           (!plan.promote || problem.dtype == DType::kFloat8E4M3);
  }
  return false;
}

int large_24_split_tiles(int tiles, int clusters) {
  const int rest = tiles % clusters;
  return rest == 0 || tiles < clusters ? rest : rest + clusters;
}

std::int64_t large_24_partial_bytes(const Matmul24Sm90Plan& plan) {
  return plan.split ? plan.blocks() * plan.row_tile * plan.token_tile * 4 : 0;
}

}  // namespace grille::kernels
