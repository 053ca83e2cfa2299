// Which k-tiles of which row blocks a block of the streaming 2:4 kernel multiplies.
#pragma once

#include "grille/kernels/cuda/device/sm90_ptx.cuh"
#include "grille/kernels/cuda/stream_24_params.h"

namespace grille::kernels::sm90 {

// A block's place in its cluster: blocks of the same `part` split the k-tiles of a row block between them,
// blocks of the same `split` use the same x.
struct ClusterPlace {
  int splits;
  int split, part;

  __device__ explicit ClusterPlace(const Stream24Params& p) : splits(p.splits) {
    const int rank = cluster_rank();
    part = rank >> (31 - __clz(splits));
    split = rank & (splits - 1);
  }
  __device__ int rank_of_split(int other) const { return part * splits + other; }
  __device__ int rank_of_part(int other) const { return other * splits + split; }
};

// A row group within a cluster's range, and this block's part of its k-tiles.
struct Segment {
  int group;
  int row_block;       // the block's
  int k_begin, k_end;  // the cluster's k-tiles
  int first, last;     // the block's
  bool is_last;        // of the cluster
};

class Schedule {
 public:
  __device__ explicit Schedule(const Stream24Params& p) : p_(p) {
    const int cluster = cluster_index();
    position_ = first_slab(cluster);
    end_ = first_slab(cluster + 1);
  }
  __device__ bool next(Segment& segment) {
    if (position_ >= end_) return false;
    const ClusterPlace place(p_);
    segment.group = position_ / p_.k_tiles;
    segment.row_block = segment.group * p_.group_rows + place.part;
    segment.k_begin = position_ - segment.group * p_.k_tiles;
    segment.k_end = min(p_.k_tiles, segment.k_begin + end_ - position_);
    const int length = segment.k_end - segment.k_begin;
    segment.first = segment.k_begin + length * place.split / place.splits;
    segment.last = segment.k_begin + length * (place.split + 1) / place.splits;
    position_ += length;
    segment.is_last = position_ >= end_;
    return true;
  }

 private:
  // stream_24_first_slab() without its 64-bit division.
  __device__ int first_slab(int cluster) const {
    return cluster * p_.slabs_per_cluster + cluster * p_.slabs_left / p_.clusters;
  }

  const Stream24Params& p_;
  int position_, end_;
};

// The ring of stages as one side sees it.
struct RingPosition {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ void advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// The block's slabs one by one.
class Slabs {
 public:
  __device__ explicit Slabs(const Stream24Params& p) : schedule_(p) { schedule_.next(segment_); }
  __device__ bool next(int& row_block, int& k_tile) {
    while (!more_in_segment()) {
      if (!schedule_.next(segment_)) return false;
      ++segments_before_;
    }
    row_block = segment_.row_block;
    k_tile = segment_.first++;
    return true;
  }
  __device__ bool more_in_segment() const { return segment_.first < segment_.last; }
  // Segments in front of the one that the last slab is of.
  __device__ int segments_before() const { return segments_before_; }

 private:
  Schedule schedule_;
  Segment segment_;
  int segments_before_ = 0;
};

}  // namespace grille::kernels::sm90
