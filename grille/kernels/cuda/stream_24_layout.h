// Shared memory and workspace of the streaming 2:4 kernel: what its launcher, its plan and the kernel agree
// on.
#pragma once

#include <cstdint>

#include "grille/formats/two_four_sm90.h"

namespace grille::kernels {

enum class Sm90Type : std::uint8_t { kBFloat16, kFloat16, kFloat8E4M3, kInt8 };

constexpr int kStreamThreads = 288;         // two consumer warpgroups and a producer warp
constexpr int kConsumers = 256;             // threads of the two
constexpr int kStreamExchangeTokens = 64;   // tokens that a cluster adds up at a time
constexpr int kStreamExchangeStride = 132;  // floats from token to token: 128 rows, and no bank conflicts
constexpr int kStreamMaxStages = 24;
constexpr int kStreamMaxCluster = 8;
constexpr int kStreamPromotedTokens =
    32;  // float8: up to this token tile sums are added up in fp32 as they come

constexpr int stream_24_exchange_bytes(int token_tile) {
  return (token_tile < kStreamExchangeTokens ? token_tile : kStreamExchangeTokens) * kStreamExchangeStride *
         4;
}

// Room to align the first stage, stages, k-tiles of x, exchange, token scales, barriers.
constexpr int stream_24_shared_bytes(int token_tile, int stages, int x_slots, int element_bytes) {
  return 1024 + stages * static_cast<int>(formats::TwoFourSm90Layout{128, 128, element_bytes}.slab_bytes()) +
         x_slots * token_tile * 128 + stream_24_exchange_bytes(token_tile) + 128 * 4 +
         8 * (2 * stages + 4 + x_slots);
}

// Slabs of all row blocks are cut into equal ranges, one a cluster; a row block that is cut is added up in
// the workspace. Cluster `cluster` of `clusters` begins at slab stream_24_first_slab().
constexpr std::int64_t stream_24_first_slab(std::int64_t slabs, int clusters, int cluster) {
  return slabs * cluster / clusters;
}

// The cluster in whose range slab `slab` is.
constexpr int stream_24_cluster_of(std::int64_t slabs, int clusters, std::int64_t slab) {
  return static_cast<int>(((slab + 1) * clusters - 1) / slabs);
}

// Workspace: counters, one a block, then for every cluster two partial tiles (of the row block that its range
// begins in, and of the one that it ends in) of [token_tile][128] fp32 or int32, then the aligned copy of x.
constexpr std::int64_t aligned_x_row_bytes(std::int64_t k, int element_bytes) {
  return (k * element_bytes + 127) / 128 * 128;
}

constexpr std::int64_t stream_24_partial_bytes(int token_tile, int clusters) {
  return 2LL * clusters * token_tile * 128 * 4;
}

}  // namespace grille::kernels
