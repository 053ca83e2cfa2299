// Which tiles a cluster computes, and which part of their k.
#pragma once

#include "grille/kernels/cuda/matmul_24_large_params.h"

namespace grille::kernels::sm90 {

struct LargeWork {
  int tile;            // of the cluster
  int k_begin, k_end;  // k-tiles
};

// The tile of a block.
struct LargePlace {
  int row_tile, token_tile;
};

// Token tiles are walked in bands, so that the clusters that run together share both rows and tokens.
__device__ __forceinline__ LargePlace place_of_tile(const LargeParams& p, int tile) {
  const int per_band = p.band * p.row_groups;
  const int first = tile / per_band * p.band;
  const int width = min(p.band, p.token_tiles - first);
  const int within = tile % per_band;
  return {within / width * kLargeClusterRows + static_cast<int>(blockIdx.x) % kLargeClusterRows,
          first + within % width};
}

// Cluster c of C takes the tiles c, c + C, c + 2 C, ... from split_tiles on. Tiles before that, if kSplits,
// are cut into equal ranges of k-tiles, one a cluster, and come first: a cluster begins in the middle of a
// tile, whose sums it hands to the cluster in front of it, and the last tile that it begins is completed by
// clusters behind it. They do that at their beginning, so that it rarely waits.
template <bool kSplits>
class LargeSchedule {
 public:
  __device__ __forceinline__ explicit LargeSchedule(const LargeParams& p) : p_(p) {
    if constexpr (kSplits) unit_ = first_unit(cluster());
    tile_ = (kSplits ? p.split_tiles : 0) + cluster();
  }

  __device__ __forceinline__ bool next(LargeWork& work) {
    if constexpr (kSplits) {
      const int end = first_unit(cluster() + 1);
      if (unit_ < end) {
        work.tile = unit_ / p_.k_tiles;
        work.k_begin = unit_ % p_.k_tiles;
        work.k_end = min(p_.k_tiles, work.k_begin + end - unit_);
        unit_ += work.k_end - work.k_begin;
        return true;
      }
    }
    if (tile_ >= p_.row_groups * p_.token_tiles) return false;
    work = {tile_, 0, p_.k_tiles};
    tile_ += static_cast<int>(gridDim.x) / kLargeClusterRows;
    return true;
  }

  // How many clusters behind this one compute the rest of the tile's k.
  __device__ __forceinline__ int helpers(const LargeWork& work) const {
    int count = 0;
    if (work.k_end == p_.k_tiles) return count;
    while (first_unit(cluster() + count + 1) < (work.tile + 1) * p_.k_tiles) ++count;
    return count;
  }

 private:
  static __device__ __forceinline__ int cluster() { return static_cast<int>(blockIdx.x) / kLargeClusterRows; }

  // The plan keeps the product within 31 bits.
  __device__ __forceinline__ int first_unit(int cluster) const {
    return p_.split_tiles * p_.k_tiles * cluster / (static_cast<int>(gridDim.x) / kLargeClusterRows);
  }

  const LargeParams& p_;
  int unit_ = 0;
  int tile_;
};

}  // namespace grille::kernels::sm90
