#include "grille/kernels/matmul_24_sm90_candidates.h"

#include <algorithm>

#include "grille/formats/two_four_sm90.h"
#include "grille/kernels/cuda/stream_24_layout.h"
#include "grille/kernels/matmul_24_large_plan.h"

namespace grille::kernels {
namespace {

constexpr std::int64_t kStreamTokens = 128;  // the largest tile; more tokens would read the weight again
constexpr std::int64_t kLargeFrom = 17;      // below, its smallest tile of 64 tokens would be mostly empty
constexpr std::int64_t kLeastTiles = 2;      // k-tiles of a block's share of a row block
constexpr int kLeastRingBytes = 48 * 1024;   // less cannot hide the way to memory
constexpr int kSharedFrom = 33;              // tokens from which several row blocks may share x

class Candidates {
 public:
  Candidates(const Matmul24Sm90Problem& problem, const Sm90Caps& caps)
      : problem_(problem),
        caps_(caps),
        layout_{problem.n, problem.k, static_cast<int>(dtype_size(problem.dtype))} {}

  std::vector<Matmul24Sm90Plan> all() {
    plans_.push_back(rule_plan_24_sm90(problem_, caps_));
    if (problem_.m >= kLargeFrom) {
      for (const Matmul24Sm90Plan& plan : candidate_plans_24_large(problem_, caps_)) add(plan);
    }
    if (problem_.m <= kStreamTokens && !problem_.swiglu) add_streams();
    return std::move(plans_);
  }

 private:
  void add(const Matmul24Sm90Plan& plan) {
    if (plans_.size() == kMost24Candidates || !may_replace_rule_24_sm90(problem_, caps_, plan)) return;
    if (std::find(plans_.begin(), plans_.end(), plan) == plans_.end()) plans_.push_back(plan);
  }

  void add_streams() {
    for (const int group_rows : {1, 2, 4}) {
      if (group_rows > 1 && (problem_.m < kSharedFrom || layout_.row_blocks() < group_rows)) continue;
      for (int splits = 1; splits * group_rows <= kStreamMaxCluster; splits *= 2)
        add_streams(group_rows, splits);
    }
  }

  void add_streams(int group_rows, int splits) {
    if (layout_.k_tiles() < kLeastTiles * splits) return;
    Matmul24Sm90Plan plan{.kernel = Matmul24Kernel::kStream, .token_tile = stream_token_tile(problem_.m)};
    plan.cluster = splits * group_rows;
    plan.group_rows = group_rows;
    plan.promote = problem_.dtype == DType::kFloat8E4M3 && plan.token_tile <= kStreamPromotedTokens;
    for (const std::int64_t clusters : cluster_counts(plan)) {
      if (!is_worth_a_try(plan, clusters)) continue;
      plan.clusters = static_cast<int>(clusters);
      plan.resident_x = false;
      add_with_rings(plan);
      plan.resident_x = group_rows == 1;
      add_with_rings(plan);
    }
  }

  // The tile that fits the tokens best.
  // Whole row groups: one a cluster, or equal numbers of them for one or two blocks a multiprocessor. Cut row
  // groups: two clusters each, or, of single row blocks, equal shares of all slabs for one or two blocks a
  // multiprocessor.
  std::vector<std::int64_t> cluster_counts(const Matmul24Sm90Plan& plan) const {
    const std::int64_t groups = stream_row_groups(plan, layout_.row_blocks());
    std::vector<std::int64_t> counts = {groups};
    if (layout_.k_tiles() >= 2 * kLeastTiles * stream_splits(plan)) counts.push_back(2 * groups);
    for (const std::int64_t slots : {caps_.multiprocessors, 2 * caps_.multiprocessors}) {
      const std::int64_t at_once = std::max<std::int64_t>(1, slots / plan.cluster);
      const std::int64_t each = (groups + at_once - 1) / at_once;
      counts.push_back((groups + each - 1) / each);
      if (plan.group_rows == 1) counts.push_back(at_once);
    }
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    return counts;
  }

  // All blocks run at once, on a quarter of the multiprocessors or more if there are so many slabs.
  bool is_worth_a_try(const Matmul24Sm90Plan& plan, std::int64_t clusters) const {
    const std::int64_t blocks = clusters * plan.cluster;
    const std::int64_t slabs = layout_.row_blocks() * layout_.k_tiles();
    const std::int64_t least = std::min<std::int64_t>(caps_.multiprocessors, slabs / kLeastTiles) / 4;
    return blocks <= 2LL * caps_.multiprocessors && blocks >= least;
  }

  // With as many stages as fit: for two blocks a multiprocessor, and where there are no more blocks than
  // multiprocessors, also for one.
  void add_with_rings(Matmul24Sm90Plan plan) {
    const int alone = caps_.shared_memory_per_block;
    for (const int budget : {caps_.shared_memory_of_two(), alone}) {
      if (budget == alone && plan.blocks() > caps_.multiprocessors) continue;
      plan.stages = stages_within(plan, budget);
      const std::int64_t stage_bytes = layout_.slab_bytes() + (plan.resident_x ? 0 : plan.token_tile * 128);
      if (plan.stages >= 2 && plan.stages * stage_bytes >= kLeastRingBytes) add(plan);
    }
  }

  int stages_within(Matmul24Sm90Plan plan, int budget) const {
    plan.stages = kStreamMaxStages;
    if (plan.resident_x && layout_.k_tiles() / plan.cluster * plan.token_tile * 128 > budget) return 0;
    while (plan.stages > 0 && stream_shared_bytes(plan, layout_.k_tiles(), layout_.element_bytes) > budget)
      --plan.stages;
    return plan.stages;
  }

  const Matmul24Sm90Problem& problem_;
  const Sm90Caps& caps_;
  formats::TwoFourSm90Layout layout_;
  std::vector<Matmul24Sm90Plan> plans_;
};

}  // namespace

std::vector<Matmul24Sm90Plan> candidate_plans_24_sm90(const Matmul24Sm90Problem& problem,
                                                      const Sm90Caps& caps) {
  return Candidates(problem, caps).all();
}

}  // namespace grille::kernels
