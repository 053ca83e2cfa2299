#include "grille/kernels/matmul_24_sm90_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/formats/two_four_sm90.h"
#include "grille/kernels/cuda/stream_24_layout.h"
#include "grille/kernels/matmul_24_large_plan.h"
#include "grille/kernels/matmul_24_plan_table.h"

namespace grille::kernels {
namespace {

constexpr int kMaxStages = 20;
constexpr int kMinStages = 2;
constexpr int kLongTiles = 96;                // k-tiles from which a quarter row block is a long share
constexpr int kMaxResidentBytes = 16 * 1024;  // of x in shared memory; more would cost stages

int element_bytes(DType dtype) { return static_cast<int>(dtype_size(dtype)); }

// How the row blocks go to clusters. Measured on an H200 with the layers of Llama 3 8B, m 1 to 64: whole row
// blocks and few of them a cluster are best, as every end of a row block costs an exchange.
void choose_clusters(Matmul24Sm90Plan& plan, const formats::TwoFourSm90Layout& layout, const Sm90Caps& caps) {
  const std::int64_t blocks = layout.row_blocks();
  const std::int64_t slots = 2LL * caps.multiprocessors;
  const std::int64_t enough = caps.multiprocessors * 9 / 10;
  plan.cluster = 1;
  while (plan.cluster < kStreamMaxCluster && blocks * plan.cluster < enough &&
         layout.k_tiles() >= 4 * plan.cluster)
    plan.cluster *= 2;
  const std::int64_t each = (blocks * plan.cluster + slots - 1) / slots;  // row blocks of a cluster
  std::int64_t clusters = (blocks + each - 1) / each;
  // A long k and few rows: two clusters a row block, of blocks that have a multiprocessor to themselves.
  const bool few = blocks * 4 <= caps.multiprocessors && blocks * 4 >= enough;
  if (few && layout.k_tiles() >= kLongTiles) {
    plan.cluster = 2;
    clusters = 2 * blocks;
  }
  plan.clusters = static_cast<int>(clusters);
}

// As many stages as fit in `budget` bytes.
void choose_stages(Matmul24Sm90Plan& plan, const formats::TwoFourSm90Layout& layout, int budget) {
  plan.stages = kMaxStages;
  while (plan.stages > kMinStages &&
         stream_shared_bytes(plan, layout.k_tiles(), layout.element_bytes) > budget)
    --plan.stages;
}

}  // namespace

Matmul24Sm90Plan plan_matmul_24_sm90(const Matmul24Sm90Problem& problem, const Sm90Caps& caps,
                                     const Matmul24PlanTable* measured) {
  const Matmul24PlanTable& table = measured != nullptr ? *measured : built_in_24_plans();
  const Matmul24Sm90Plan* plan = table.find(problem, caps);
  return plan != nullptr ? *plan : rule_plan_24_sm90(problem, caps);
}

int stream_token_tile(std::int64_t m) {
  int tile = 8;
  while (tile < m) tile *= 2;
  return tile;
}

Matmul24Sm90Plan rule_plan_24_sm90(const Matmul24Sm90Problem& problem, const Sm90Caps& caps) {
  if (problem.m > kMost24StreamTokens || problem.swiglu) return plan_matmul_24_large(problem, caps);
  const formats::TwoFourSm90Layout layout{problem.n, problem.k, element_bytes(problem.dtype)};
  Matmul24Sm90Plan plan;
  plan.kernel = Matmul24Kernel::kStream;
  plan.token_tile = stream_token_tile(problem.m);
  plan.promote = problem.dtype == DType::kFloat8E4M3 && plan.token_tile <= 32;
  choose_clusters(plan, layout, caps);

  // Two blocks a multiprocessor, so that the next kernel's blocks can fetch while this one's finish; where a
  // block's share is long, a deep ring is worth more than that.
  const bool alone = plan.clusters > layout.row_blocks();  // two clusters a row block
  const int budget = alone ? caps.shared_memory_per_block : caps.shared_memory_of_two();
  // One short row block a cluster: all of x at once is the shortest way to its end.
  plan.resident_x =
      plan.clusters == layout.row_blocks() && plan.blocks() <= caps.multiprocessors &&
      (layout.k_tiles() + plan.cluster - 1) / plan.cluster * plan.token_tile * 128 <= kMaxResidentBytes;
  choose_stages(plan, layout, budget);
  const int needed = stream_shared_bytes(plan, layout.k_tiles(), layout.element_bytes);
  check(needed <= caps.shared_memory_per_block, ErrorCode::kInvalidArgument,
        "matmul_24_sm90: {} needs {} bytes of shared memory, the device has {}", to_string(plan), needed,
        caps.shared_memory_per_block);
  return plan;
}

std::string to_string(const Matmul24Sm90Plan& plan) {
  if (plan.kernel == Matmul24Kernel::kLarge) {
    return fmt::format("large {} rows x {} tokens, {} clusters of {}{}{}", plan.row_tile, plan.token_tile,
                       plan.clusters, plan.cluster, plan.split ? ", split" : "",
                       plan.promote ? ", promoted" : "");
  }
  return fmt::format("stream {} rows x {} tokens, {} stages, {} clusters of {}{}{}", plan.row_tile,
                     plan.token_tile, plan.stages, plan.clusters, plan.cluster,
                     plan.group_rows > 1 ? fmt::format(", x for {} row blocks", plan.group_rows) : "",
                     plan.resident_x ? ", resident x" : "");
}

int stream_x_slots(const Matmul24Sm90Plan& plan, std::int64_t k_tiles) {
  if (!plan.resident_x) return plan.stages;
  return static_cast<int>((k_tiles + plan.cluster - 1) / plan.cluster);
}

int stream_shared_bytes(const Matmul24Sm90Plan& plan, std::int64_t k_tiles, int element_bytes) {
  return stream_memory(plan, k_tiles, element_bytes).bytes;
}

Stream24Memory stream_memory(const Matmul24Sm90Plan& plan, std::int64_t k_tiles, int element_bytes) {
  return stream_24_memory(plan.token_tile, plan.stages, stream_x_slots(plan, k_tiles), element_bytes,
                          stream_splits(plan));
}

std::int64_t stream_row_groups(const Matmul24Sm90Plan& plan, std::int64_t row_blocks) {
  return (row_blocks + plan.group_rows - 1) / plan.group_rows;
}

}  // namespace grille::kernels
