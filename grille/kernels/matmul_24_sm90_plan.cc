#include "grille/kernels/matmul_24_sm90_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/formats/two_four_sm90.h"
#include "grille/kernels/cuda/stream_24_layout.h"
#include "grille/kernels/matmul_24_large_plan.h"

namespace grille::kernels {
namespace {

constexpr int kMaxStages = 16;       // more in flight was never faster
constexpr int kMaxStreamTokens = 128;
constexpr int kBlockReserve = 1024;  // bytes of shared memory that the system takes of every block

int element_bytes(DType dtype) { return static_cast<int>(dtype_size(dtype)); }

int smallest_token_tile(std::int64_t m) {
  int tile = 8;
  while (tile < 128 && tile < m) tile *= 2;
  return tile;
}

}  // namespace

Matmul24Sm90Plan plan_matmul_24_sm90(const Matmul24Sm90Problem& problem, const Sm90Caps& caps) {
  if (problem.m > kMaxStreamTokens || problem.swiglu) return plan_matmul_24_large(problem, caps);
  const formats::TwoFourSm90Layout layout{problem.n, problem.k, element_bytes(problem.dtype)};
  Matmul24Sm90Plan plan;
  plan.kernel = Matmul24Kernel::kStream;
  plan.token_tile = smallest_token_tile(problem.m);

  // Two blocks a multiprocessor, so that the next kernel's blocks can fetch while this one's finish.
  const int budget =
      std::min(caps.shared_memory_per_block, caps.shared_memory_per_multiprocessor / 2 - kBlockReserve);
  plan.stages = kMaxStages;
  while (plan.stages > 2 && stream_shared_bytes(plan, layout.element_bytes) > budget) --plan.stages;
  check(stream_shared_bytes(plan, layout.element_bytes) <= caps.shared_memory_per_block,
        ErrorCode::kInvalidArgument, "matmul_24_sm90: {} needs {} bytes of shared memory, the device has {}",
        to_string(plan), stream_shared_bytes(plan, layout.element_bytes), caps.shared_memory_per_block);

  const std::int64_t slabs = layout.row_blocks() * layout.k_tiles();
  plan.cluster = 4;
  while (plan.cluster > 1 && layout.k_tiles() < 2 * plan.cluster) plan.cluster /= 2;
  const std::int64_t fit = std::max(1, caps.multiprocessors / plan.cluster);
  plan.clusters = static_cast<int>(std::clamp<std::int64_t>(slabs / plan.cluster, 1, fit));
  return plan;
}

std::string to_string(const Matmul24Sm90Plan& plan) {
  if (plan.kernel == Matmul24Kernel::kLarge) {
    return fmt::format("large {} rows x {} tokens, {} clusters of {}{}{}", plan.row_tile, plan.token_tile,
                       plan.clusters, plan.cluster, plan.split ? ", split" : "",
                       plan.promote ? ", promoted" : "");
  }
  return fmt::format("stream {} rows x {} tokens, {} stages, {} clusters of {}", plan.row_tile,
                     plan.token_tile, plan.stages, plan.clusters, plan.cluster);
}

int stream_shared_bytes(const Matmul24Sm90Plan& plan, int element_bytes) {
  return stream_24_shared_bytes(plan.token_tile, plan.stages, element_bytes);
}

}  // namespace grille::kernels
