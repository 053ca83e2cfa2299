// y = x W^T for up to 128 tokens: the 2:4 weight streams through all multiprocessors.
//
// A block is a producer warp, which fills a ring of stages (a slab of W and the k-tile of x that belongs to
// it), and two consumer warpgroups of 64 weight rows each (W is the sparse operand A of wgmma, x is B).
// Clusters take equal ranges of slabs; the blocks of a cluster split the k-tiles of a row block between them
// and add up through each other's shared memory, each for its share of the rows. What is left of a row block
// that lies in the ranges of several clusters is added up by the last of them to finish, in the order of
// clusters, from the workspace: nothing waits for another cluster, and the order of every sum is fixed.
#pragma once

#include "grille/kernels/cuda/device/sm90_ptx.cuh"
#include "grille/kernels/cuda/device/stream_24_epilogue.cuh"
#include "grille/kernels/cuda/device/stream_24_memory.cuh"
#include "grille/kernels/cuda/device/stream_24_wgmma.cuh"

namespace grille::kernels::sm90 {

// A row block within a cluster's range, and this block's part of its k-tiles.
struct Segment {
  int row_block;
  int k_begin, k_end;  // the cluster's k-tiles
  int first, last;     // the block's
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
    segment.row_block = position_ / p_.k_tiles;
    segment.k_begin = position_ - segment.row_block * p_.k_tiles;
    segment.k_end = min(p_.k_tiles, segment.k_begin + end_ - position_);
    const int length = segment.k_end - segment.k_begin;
    const int rank = cluster_rank();
    const int ranks = cluster_size();
    segment.first = segment.k_begin + length * rank / ranks;
    segment.last = segment.k_begin + length * (rank + 1) / ranks;
    position_ += length;
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
  __device__ explicit Slabs(const Schedule& schedule) : schedule_(schedule) {
    segment_.first = segment_.last = 0;
  }
  __device__ bool next(int& row_block, int& k_tile) {
    while (segment_.first == segment_.last) {
      if (!schedule_.next(segment_)) return false;
    }
    row_block = segment_.row_block;
    k_tile = segment_.first++;
    return true;
  }

 private:
  Schedule schedule_;
  Segment segment_;
};

// One thread. Fetches weights before it waits for the kernel in front, and x only then.
template <typename Shape>
__device__ void produce(const Stream24Params& p, const CUtensorMap* x_map,
                        const StreamMemory<Shape>& memory) {
  const std::uint64_t first = evict_first_policy();
  const std::uint64_t last = evict_last_policy();
  const int stage_bytes = Shape::kSlabBytes + (p.resident_x ? 0 : Shape::kXBytes);
  const auto fetch_slab = [&](int stage, int row_block, int k_tile) {
    arrive_and_expect(memory.full(stage), stage_bytes);
    const std::int64_t slab = static_cast<std::int64_t>(row_block) * p.k_tiles + k_tile;
    copy_bulk(memory.slab(stage), p.slabs + slab * Shape::kSlabBytes, Shape::kSlabBytes, memory.full(stage),
              first);
  };
  const auto fetch_x = [&](int slot, int k_tile, std::uint32_t barrier) {
    copy_tile(memory.x(slot), x_map, k_tile * 128, p.token_begin, barrier, last);
  };
  Slabs slabs{Schedule(p)};
  int row_block, k_tile, fetched = 0;
  while (fetched < p.stages && slabs.next(row_block, k_tile)) fetch_slab(fetched++, row_block, k_tile);
  wait_for_previous();
  if (p.resident_x) {
    Segment any;
    Schedule(p).next(any);
    for (int slot = 0; slot < any.last - any.first; ++slot) {
      arrive_and_expect(memory.x_full(slot), Shape::kXBytes);
      fetch_x(slot, any.first + slot, memory.x_full(slot));
    }
  } else {
    Slabs behind{Schedule(p)};
    for (int stage = 0; stage < fetched; ++stage) {
      behind.next(row_block, k_tile);
      fetch_x(stage, k_tile, memory.full(stage));
    }
  }
  RingPosition ring;
  while (slabs.next(row_block, k_tile)) {
    wait_barrier(memory.empty(ring.stage), ring.parity);
    fetch_slab(ring.stage, row_block, k_tile);
    if (!p.resident_x) fetch_x(ring.stage, k_tile, memory.full(ring.stage));
    ring.advance(p.stages);
  }
}

// Multiplies kCount stages and releases them; `slot` is where resident x of the first is. `sum` is not read
// if `accumulate` is 0.
template <typename Shape, int kCount, typename Accumulator>
__device__ __forceinline__ void multiply(const Stream24Params& p, const StreamMemory<Shape>& memory,
                                         RingPosition& ring, int slot, int accumulate,
                                         Accumulator (&sum)[Shape::kTokens / 2]) {
  using Wgmma = SparseWgmma<Shape::kType, Shape::kTokens>;
  const int group = static_cast<int>(threadIdx.x) / 128;
  std::uint32_t slab[kCount], x[kCount], metadata[kCount][2];
  RingPosition next = ring;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    slab[i] = memory.slab(next.stage);
    x[i] = memory.x(p.resident_x ? slot + i : next.stage);
    wait_barrier(memory.full(next.stage), next.parity);
    if (p.resident_x) wait_barrier(memory.x_full(slot + i), 0);
    const std::uint32_t words = slab[i] + formats::kSm90SlabValueBytes + threadIdx.x * (4 * Shape::kWords);
    if constexpr (Shape::kWords == 2) {
      const uint2 pair = load_shared_pair(words);
      metadata[i][0] = pair.x;
      metadata[i][1] = pair.y;
    } else {
      metadata[i][0] = metadata[i][1] = load_shared(words);
    }
    next.advance(p.stages);
  }
  fence_registers(sum);
  fence_wgmma();
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const std::uint64_t a = operand_descriptor<64>(slab[i] + group * 4096);
    const std::uint64_t b = operand_descriptor<128>(x[i]);
    Wgmma::template mma<0>(sum, a, b, metadata[i][0], i == 0 ? accumulate : 1);
    Wgmma::template mma<Shape::kWords == 1 ? 1 : 0>(sum, a + 2, b + 4, metadata[i][1], 1);
  }
  commit_wgmma();
  wait_wgmma<0>();
  fence_registers(sum);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (threadIdx.x % 32 == 0) arrive(memory.empty(ring.stage));
    ring.advance(p.stages);
  }
}

// This block's `count` k-tiles of a segment.
template <typename Shape, typename Accumulator>
__device__ __forceinline__ void multiply_segment(const Stream24Params& p, const StreamMemory<Shape>& memory,
                                                 RingPosition& ring, int count,
                                                 Accumulator (&total)[Shape::kTokens / 2]) {
#pragma unroll
  for (int i = 0; i < Shape::kTokens / 2; ++i) total[i] = 0;
  int slot = 0;
  if constexpr (Shape::kPromote) {
    Accumulator sum[Shape::kTokens / 2];
    const auto promote = [&] {
#pragma unroll
      for (int i = 0; i < Shape::kTokens / 2; ++i) total[i] += sum[i];
    };
#pragma unroll 1
    for (; slot + Shape::kBatch <= count; slot += Shape::kBatch) {
      multiply<Shape, Shape::kBatch>(p, memory, ring, slot, 0, sum);
      promote();
    }
    if (Shape::kBatch > 1 && slot < count) {
      multiply<Shape, 1>(p, memory, ring, slot, 0, sum);
      promote();
    }
  } else {
#pragma unroll 1
    for (; slot + Shape::kBatch <= count; slot += Shape::kBatch)
      multiply<Shape, Shape::kBatch>(p, memory, ring, slot, 1, total);
    if (Shape::kBatch > 1 && slot < count) multiply<Shape, 1>(p, memory, ring, slot, 1, total);
  }
}

template <typename Shape>
__device__ void consume(const Stream24Params& p, const StreamMemory<Shape>& memory) {
  wait_for_previous();
  if (static_cast<int>(threadIdx.x) < p.tokens) {  // visible to all consumers with the first exchange
    const float scale =
        p.x_scale != nullptr ? p.x_scale[p.token_begin + static_cast<int>(threadIdx.x)] : 1.0f;
    store_shared(memory.token_scales() + 4 * threadIdx.x, __float_as_uint(scale));
  }
  wait_cluster();
  typename Shape::Accumulator total[Shape::kTokens / 2];
  RingPosition ring;
  Exchange<Shape> exchange(memory);
  Schedule segments(p);
  Segment segment;
  while (segments.next(segment)) {
    prefetch_features(p, segment.row_block);
    multiply_segment<Shape>(p, memory, ring, segment.last - segment.first, total);
    exchange.finish(p, segment.row_block, segment.k_begin, segment.k_end, total);
  }
  exchange.leave();
}

template <typename Shape>
__global__ void __launch_bounds__(kStreamThreads, 2)
    stream_24_kernel(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ Stream24Params p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ std::uint8_t dynamic_memory[];
  const StreamMemory<Shape> memory(dynamic_memory, p);
  if (threadIdx.x == kConsumers) {
    prefetch_map(&x_map);
    for (int i = 0; i < p.stages; ++i) {
      init_barrier(memory.full(i), 1);
      init_barrier(memory.empty(i), kConsumers / 32);
    }
    for (int i = 0; i < (p.resident_x ? p.x_slots : 0); ++i) init_barrier(memory.x_full(i), 1);
    init_barrier(memory.ready(), kConsumers / 32 * cluster_size());
    init_barrier(memory.released(), kConsumers / 32 * cluster_size());
    fence_barrier_init();
  }
  __syncthreads();
  launch_dependents();
  arrive_cluster();
  if (threadIdx.x >= kConsumers) {
    if (threadIdx.x == kConsumers) produce<Shape>(p, &x_map, memory);
    __syncwarp();
    wait_cluster();
  } else {
    consume<Shape>(p, memory);
  }
#endif
}

}  // namespace grille::kernels::sm90
