// Shared memory and workspace of the streaming 2:4 kernel: what its launcher, its plan and the kernel agree
// on.
#pragma once

#include <cstdint>

#include "grille/formats/two_four_sm90.h"

namespace grille::kernels {

enum class Sm90Type : std::uint8_t { kBFloat16, kFloat16, kFloat8E4M3, kInt8 };

constexpr int kStreamThreads = 288;  // two consumer warpgroups and a producer warp
constexpr int kConsumers = 256;      // threads of the two
constexpr int kStreamMaxStages = 24;
constexpr int kStreamMaxCluster = 8;
constexpr int kStreamPromotedTokens =
    32;  // float8: up to this token tile sums are added up in fp32 as they come

// The sums of a warp are chunks: 16 rows x 8 tokens, four values a thread, 16 bytes each, in the order of
// threads.
constexpr int kStreamChunkBytes = 512;
// Chunks that a warp hands itself at a time where nobody else adds to them.
constexpr int stream_24_round(int token_tile) { return token_tile / 8 < 4 ? token_tile / 8 : 4; }

// What a block receives: for the rows that it adds up, a part from each of the `splits` blocks that split k.
constexpr int stream_24_exchange_bytes(int token_tile, int splits) {
  return 8 * kStreamChunkBytes * (splits == 1 ? stream_24_round(token_tile) : token_tile / 8);
}

// With so many tokens, the parts take the place of the stages, once all of the cluster have read theirs.
constexpr bool stream_24_exchange_in_ring(int token_tile, int splits) {
  return token_tile > 64 && splits > 1;
}

// Offsets behind the stages, from the first stage on: [stages of slabs][k-tiles of x][exchange][token scales]
// [barriers].
struct Stream24Memory {
  int exchange = 0;
  int token_scales = 0;
  int bytes = 0;  // of all, with room to align the first stage
};

constexpr Stream24Memory stream_24_memory(int token_tile, int stages, int x_slots, int element_bytes,
                                          int splits) {
  const int ring =
      stages * static_cast<int>(formats::TwoFourSm90Layout{128, 128, element_bytes}.slab_bytes()) +
      x_slots * token_tile * 128;
  const int exchange = stream_24_exchange_bytes(token_tile, splits);
  Stream24Memory memory;
  memory.exchange = stream_24_exchange_in_ring(token_tile, splits) ? 0 : ring;
  memory.token_scales = memory.exchange + exchange > ring ? memory.exchange + exchange : ring;
  memory.bytes = 1024 + memory.token_scales + 128 * 4 + 8 * (2 * stages + 4 + x_slots);
  return memory;
}

// A cluster works on one row block at a time, or on 2 or 4 neighbours, which use the same x: a row group. The
// k-tiles of all row groups ("slabs" in what follows) are cut into equal ranges, one a cluster; a row group
// that is cut is added up in the workspace. Cluster `cluster` of `clusters` begins at slab
// stream_24_first_slab().
constexpr std::int64_t stream_24_first_slab(std::int64_t slabs, int clusters, int cluster) {
  return slabs * cluster / clusters;
}

// The cluster in whose range slab `slab` is.
constexpr int stream_24_cluster_of(std::int64_t slabs, int clusters, std::int64_t slab) {
  return static_cast<int>(((slab + 1) * clusters - 1) / slabs);
}

// Workspace: counters, one a block, then for every cluster two partial tiles (of the row group that its range
// begins in, and of the one that it ends in) of [row blocks of a group][token_tile][128] fp32 or int32, then
// the aligned copy of x.
constexpr std::int64_t aligned_x_row_bytes(std::int64_t k, int element_bytes) {
  return (k * element_bytes + 127) / 128 * 128;
}

constexpr std::int64_t stream_24_partial_bytes(int token_tile, int clusters, int group_rows) {
  return 2LL * clusters * group_rows * token_tile * 128 * 4;
}

}  // namespace grille::kernels
