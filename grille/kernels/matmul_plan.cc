#include "grille/kernels/matmul_plan.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace grille::kernels {
namespace {

constexpr std::int64_t kPanelBytes = 512 * 1024;  // at most half of an L2 cache
constexpr std::int64_t kMaxPanelRows = 64;
constexpr std::int64_t kManyTokenBytes = 2 * 1024 * 1024;
constexpr std::int64_t kBlockColumns = 4096;  // of a panel; see cpu/matmul-inl.h

// Costs of an element, in multiplications: of decoding one of a weight into a panel, and of fetching one of a
// token for a panel from the third-level cache. Both are about half a byte's cycle on AVX-512.
constexpr std::int64_t kDecodeCost = 8;
constexpr std::int64_t kTokenCost = 8;

// The same where a tile instruction makes 16 times as many multiplications.
constexpr std::int64_t kTiles = 16;            // rows and tokens of a tile
constexpr std::int64_t kFewestTileTokens = 8;  // fewer leave most of a tile empty
constexpr std::int64_t kTilePanelRows = 256;
constexpr std::int64_t kFewTokenBytes = 512 * 1024;  // of tokens that stay in the L2 cache
constexpr std::int64_t kFewTokenPanelRows = 32;      // rows are then read to their end, as they lie in memory
constexpr std::int64_t kTileCost = 16;

bool fits_bfloat16(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat8E4M3; }

}  // namespace

int max_token_tile(Isa isa) {
  switch (isa) {
    case Isa::kAmx:
    case Isa::kAvx512: return 6;  // 24 of 32 registers
    case Isa::kAvx2: return 3;    // 12 of 16
    case Isa::kScalar: return 2;
  }
  return 1;
}

MatmulPlan plan_matmul(const MatmulProblem& problem, Isa isa, bool slow_pairs) {
  MatmulPlan plan;
  plan.isa = isa;
  const bool pairs = isa >= Isa::kAvx512 && fits_bfloat16(problem.x) && fits_bfloat16(problem.weight);
  if (pairs) {
    plan.compute =
        problem.weight == DType::kFloat8E4M3 ? ComputeClass::kFloat8Pairs : ComputeClass::kBFloat16Pairs;
  }

  if (isa == Isa::kAmx && pairs && problem.m >= kFewestTileTokens) {
    plan.compute =
        problem.weight == DType::kFloat8E4M3 ? ComputeClass::kFloat8Tiles : ComputeClass::kBFloat16Tiles;
    plan.token_tile = kTiles;
    plan.expand_panel = true;
    const bool few = problem.m * problem.k * 2 <= kFewTokenBytes;
    plan.panel_rows = few ? kFewTokenPanelRows : kTilePanelRows;
    plan.row_group = kTiles;
    return plan;
  }

  // A single token waits for memory, or where its sums are added one after the other: that takes half as long
  // in pairs.
  const bool split = pairs && slow_pairs && problem.m > 1;
  if (split) {
    plan.compute =
        problem.weight == DType::kFloat8E4M3 ? ComputeClass::kFloat8Split : ComputeClass::kBFloat16Split;
  }

  // As few tiles as possible, of equal size.
  const std::int64_t largest = max_token_tile(isa);
  const std::int64_t tiles = std::max<std::int64_t>(1, (problem.m + largest - 1) / largest);
  plan.token_tile = static_cast<int>(std::max<std::int64_t>(1, (problem.m + tiles - 1) / tiles));

  plan.expand_panel = tiles > 1;
  const std::int64_t row_bytes = std::min(problem.k, kBlockColumns) * (pairs && !split ? 2 : 4);
  // CPUs with slow pairs have 2 MiB of L2 cache. More rows are worth the room where tokens are too many for
  // it.
  const bool tall = split && problem.m * problem.k * 4 > kManyTokenBytes;
  const std::int64_t panel_bytes = tall ? 2 * kPanelBytes : kPanelBytes;
  const std::int64_t rows =
      plan.expand_panel ? panel_bytes / std::max<std::int64_t>(row_bytes, 1) : kMaxPanelRows;
  plan.panel_rows = std::clamp(rows / plan.row_group * plan.row_group, plan.row_group, kMaxPanelRows);
  return plan;
}

MatmulGrid plan_grid(const MatmulPlan& plan, std::int64_t m, std::int64_t rows, std::int64_t threads) {
  if (!plan.expand_panel) return {threads, 1};
  const auto parts_of = [](std::int64_t count, std::int64_t size) { return (count + size - 1) / size; };
  const std::int64_t groups = parts_of(rows, plan.row_group);
  const std::int64_t faster = uses_tiles(plan.compute) ? kTileCost : 1;
  const std::int64_t tiles = parts_of(m, plan.token_tile);
  MatmulGrid best;
  std::int64_t lowest = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t token_parts = 1; token_parts <= std::min(threads, tiles); ++token_parts) {
    const std::int64_t row_parts = std::min(threads / token_parts, groups);
    const std::int64_t block_rows = parts_of(groups, row_parts) * plan.row_group;
    const std::int64_t block_tokens = parts_of(tiles, token_parts) * plan.token_tile;
    const std::int64_t cost = block_rows * block_tokens + faster * kDecodeCost * block_rows +
                              faster * kTokenCost * block_tokens * parts_of(block_rows, plan.panel_rows);
    if (cost < lowest) best = {row_parts, token_parts};
    lowest = std::min(cost, lowest);
  }
  return best;
}

std::string to_string(const MatmulPlan& plan) {
  const auto compute_name = [](ComputeClass compute) {
    switch (compute) {
      case ComputeClass::kBFloat16Pairs: return "bfloat16-pairs";
      case ComputeClass::kFloat8Pairs: return "float8-pairs";
      case ComputeClass::kFloat32: return "float32";
      case ComputeClass::kBFloat16Split: return "bfloat16-split";
      case ComputeClass::kFloat8Split: return "float8-split";
      case ComputeClass::kBFloat16Tiles: return "bfloat16-tiles";
      case ComputeClass::kFloat8Tiles: return "float8-tiles";
    }
    return "";
  };
  return fmt::format("{} {} {} of {} rows x {} tokens", isa_name(plan.isa), compute_name(plan.compute),
                     plan.expand_panel ? "panel" : "stream", plan.panel_rows, plan.token_tile);
}

}  // namespace grille::kernels
