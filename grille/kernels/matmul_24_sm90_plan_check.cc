#include <fmt/format.h>

#include "grille/formats/two_four_sm90.h"
#include "grille/kernels/cuda/stream_24_layout.h"
#include "grille/kernels/matmul_24_large_plan.h"
#include "grille/kernels/matmul_24_sm90.h"
#include "grille/kernels/matmul_24_sm90_plan.h"

namespace grille::kernels {
namespace {

std::string refusal_of_large(const Matmul24Sm90Problem& problem, const Sm90Caps& caps,
                             const Matmul24Sm90Plan& plan) {
  // Clusters that share a tile wait for each other, so that all of them must run at once.
  const bool run_at_once = !plan.split || plan.blocks() <= caps.multiprocessors || plan.clusters == 1;
  if (is_large_24_plan(problem, plan) && run_at_once &&
      static_cast<std::size_t>(plan.blocks()) * 8 <= kMatmul24CounterBytes)
    return "";
  return fmt::format("there is no kernel for the plan \"{}\" of [{}, {}] x {} tokens", to_string(plan),
                     problem.n, problem.k, problem.m);
}

bool is_stream_tile(int tile) { return tile == 8 || tile == 16 || tile == 32 || tile == 64 || tile == 128; }

bool is_stream_cluster(int cluster) {
  return cluster == 1 || cluster == 2 || cluster == 4 || cluster == kStreamMaxCluster;
}

// Several row blocks share x if every block of them fetches 8 tokens or more for all; x stays where neither
// they nor the exchange get into its way.
bool is_stream_group(const Matmul24Sm90Plan& plan) {
  if (plan.group_rows == 1)
    return !plan.resident_x || !stream_24_exchange_in_ring(plan.token_tile, plan.cluster);
  return (plan.group_rows == 2 || plan.group_rows == 4) && plan.cluster >= plan.group_rows &&
         plan.token_tile >= 8 * plan.group_rows && !plan.resident_x;
}

std::string refusal_of_stream(const Matmul24Sm90Problem& problem, const Sm90Caps& caps,
                              const Matmul24Sm90Plan& plan) {
  if (problem.swiglu) return "the streaming kernel has no SwiGLU";
  const bool known = plan.kernel == Matmul24Kernel::kStream && plan.row_tile == 128 &&
                     is_stream_tile(plan.token_tile) && is_stream_cluster(plan.cluster) &&
                     is_stream_group(plan) && plan.stages >= 2 && plan.stages <= kStreamMaxStages &&
                     plan.clusters >= 1 &&
                     static_cast<std::size_t>(plan.blocks()) * 4 <= kMatmul24CounterBytes;
  if (!known) return fmt::format("there is no kernel for the plan \"{}\"", to_string(plan));
  const formats::TwoFourSm90Layout layout{problem.n, problem.k, static_cast<int>(dtype_size(problem.dtype))};
  if (plan.clusters > stream_row_groups(plan, layout.row_blocks()) * layout.k_tiles() ||
      (plan.resident_x && layout.row_blocks() % plan.clusters != 0)) {
    return fmt::format("the plan \"{}\" cuts {} x {} slabs into empty or broken ranges", to_string(plan),
                       layout.row_blocks(), layout.k_tiles());
  }
  // Before the bytes of all slots, which overflow for a long k.
  const std::int64_t slots = plan.resident_x ? (layout.k_tiles() + plan.cluster - 1) / plan.cluster : 0;
  const std::int64_t least = slots * plan.token_tile * 128;
  const std::int64_t shared = least > caps.shared_memory_per_block
                                  ? least
                                  : stream_shared_bytes(plan, layout.k_tiles(), layout.element_bytes);
  if (shared <= caps.shared_memory_per_block) return "";
  return fmt::format("the plan \"{}\" needs {} bytes of shared memory, the device has {}", to_string(plan),
                     shared, caps.shared_memory_per_block);
}

}  // namespace

std::string refusal_of_plan_24_sm90(const Matmul24Sm90Problem& problem, const Sm90Caps& caps,
                                    const Matmul24Sm90Plan& plan) {
  return plan.kernel == Matmul24Kernel::kLarge ? refusal_of_large(problem, caps, plan)
                                               : refusal_of_stream(problem, caps, plan);
}

bool may_replace_rule_24_sm90(const Matmul24Sm90Problem& problem, const Sm90Caps& caps,
                              const Matmul24Sm90Plan& plan) {
  const bool float8 = problem.dtype == DType::kFloat8E4M3;
  bool sums_alike = plan.promote == (float8 && !problem.fast_accumulation);
  if (plan.kernel == Matmul24Kernel::kStream) {
    if (plan.token_tile < problem.m) return false;
    // The tile decides: short ones promote.
    sums_alike = plan.promote == (float8 && plan.token_tile <= kStreamPromotedTokens) &&
                 (plan.promote || !float8 || problem.m > kStreamPromotedTokens);
    // The rule's plan is then a large one, which promotes.
    if (float8 && !problem.fast_accumulation && problem.m > kMost24StreamTokens) return false;
  }
  return sums_alike && refusal_of_plan_24_sm90(problem, caps, plan).empty();
}

}  // namespace grille::kernels
