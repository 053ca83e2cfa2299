// Which tiles a cluster computes, and which part of their k.
#pragma once

#include <cstdint>

#include "grille/kernels/cuda/device/barrier.cuh"
#include "grille/kernels/cuda/matmul_24_large_params.h"

namespace grille::kernels {

struct LargeWork {
  int row_tile, token_tile;
  int k_begin, k_end;  // k-tiles
  int helpers;         // clusters behind this one that computed the rest of the tile's k
};

// Tiles [0, split_tiles) are cut into equal ranges of k-tiles, one a cluster: a cluster begins in the middle of
// a tile, whose sums it hands to the cluster in front of it, and the last tile that it begins is completed by
// clusters behind it. They did that at their beginning, so that nobody waits. The other tiles follow, a whole one
// a cluster and round.
class LargeSchedule {
 public:
  __device__ __forceinline__ LargeSchedule(const LargeParams& p)
      : p_(p),
        cluster_(static_cast<int>(blockIdx.x) / kLargeClusterRows),
        clusters_(static_cast<int>(gridDim.x) / kLargeClusterRows),
        row_(static_cast<int>(blockIdx.x) % kLargeClusterRows),
        unit_(first_unit(cluster_)),
        unit_end_(first_unit(cluster_ + 1)),
        whole_tile_(p.split_tiles + cluster_) {}

  __device__ __forceinline__ bool next(LargeWork& work) {
    if (unit_ < unit_end_) {
      const int tile = unit_ / p_.k_tiles;
      place(tile, work);
      work.k_begin = unit_ % p_.k_tiles;
      work.k_end = min(p_.k_tiles, work.k_begin + unit_end_ - unit_);
      unit_ += work.k_end - work.k_begin;
      work.helpers = 0;
      if (work.k_begin == 0) {
        while (first_unit(cluster_ + work.helpers + 1) < (tile + 1) * p_.k_tiles) ++work.helpers;
      }
      return true;
    }
    if (whole_tile_ >= p_.row_groups * p_.token_tiles) return false;
    place(whole_tile_, work);
    work.k_begin = 0;
    work.k_end = p_.k_tiles;
    work.helpers = 0;
    whole_tile_ += clusters_;
    return true;
  }

 private:
  __device__ __forceinline__ int first_unit(int cluster) const {
    return p_.split_tiles * p_.k_tiles * cluster / clusters_;  // the plan keeps this within 31 bits
  }

  // Token tiles are walked in bands, so that the clusters that run together share both rows and tokens.
  __device__ __forceinline__ void place(int tile, LargeWork& work) const {
    const int per_band = p_.band * p_.row_groups;
    const int first = tile / per_band * p_.band;
    const int width = min(p_.band, p_.token_tiles - first);
    const int within = tile % per_band;
    work.row_tile = within / width * kLargeClusterRows + row_;
    work.token_tile = first + within % width;
  }

  const LargeParams& p_;
  const int cluster_, clusters_, row_;
  int unit_;
  const int unit_end_;
  int whole_tile_;
};

}  // namespace grille::kernels
