// How a large-batch 2:4 matmul on a Hopper GPU is cut into tiles: a pure function of the problem and the
// device.
#pragma once

#include <vector>

#include "grille/kernels/matmul_24_sm90_plan.h"

namespace grille::kernels {

// The plan of the least time, estimated from what was measured on an H200.
Matmul24Sm90Plan plan_matmul_24_large(const Matmul24Sm90Problem& problem, const Sm90Caps& caps);

// Every tile that there is a kernel for, split and not, with as many clusters as it has work for.
std::vector<Matmul24Sm90Plan> candidate_plans_24_large(const Matmul24Sm90Problem& problem,
                                                       const Sm90Caps& caps);

// Whether there is a kernel for a plan of Matmul24Kernel::kLarge.
bool is_large_24_plan(const Matmul24Sm90Problem& problem, const Matmul24Sm90Plan& plan);

// Of `tiles` (of a whole cluster), those whose k is shared in a split plan: what does not fill a wave of the
// clusters, with one full wave if there is one, so that every cluster has at least a tile of it.
int large_24_split_tiles(int tiles, int clusters);

// Bytes of workspace for the sums that blocks hand over in a split plan.
std::int64_t large_24_partial_bytes(const Matmul24Sm90Plan& plan);

}  // namespace grille::kernels
