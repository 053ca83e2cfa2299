// y = x W^T for up to 128 tokens: the 2:4 weight streams through all multiprocessors.
//
// A block is a producer warp, which fills a ring of stages (a slab of W and the k-tile of x that belongs to
// it), and two consumer warpgroups of 64 weight rows each (W is the sparse operand A of wgmma, x is B).
// Clusters take equal ranges of slabs; the blocks of a cluster split the k-tiles of a row block between them
// and send each other their sums, each adds up its share of the rows. With many tokens a cluster works on
// several row blocks at a time, and x goes to the blocks of all at once. What is left of a row block that
// lies in the ranges of several clusters is added up by the last of them to finish, in the order of clusters,
// from the workspace: nothing waits for another cluster, and the order of every sum is fixed.
#pragma once

#include "grille/kernels/cuda/device/sm90_ptx.cuh"
#include "grille/kernels/cuda/device/stream_24_epilogue.cuh"
#include "grille/kernels/cuda/device/stream_24_memory.cuh"
#include "grille/kernels/cuda/device/stream_24_schedule.cuh"
#include "grille/kernels/cuda/device/stream_24_wgmma.cuh"

namespace grille::kernels::sm90 {

// One thread. Fetches weights before it waits for the kernel in front, and x only then.
template <typename Shape>
class Producer {
 public:
  __device__ Producer(const Stream24Params& p, const CUtensorMap* x_map, const StreamMemory<Shape>& memory)
      : p_(p), x_map_(x_map), memory_(memory), place_(p), slabs_(p) {
    exchange_in_ring_ = stream_24_exchange_in_ring(Shape::kTokens, place_.splits);
  }

  // The weights of the first stages. What comes after an exchange that takes the place of stages has to wait
  // for it.
  __device__ void fetch_first_slabs() {
    int row_block, k_tile;
    while (fetched_ < p_.stages && (!exchange_in_ring_ || slabs_.more_in_segment()) &&
           slabs_.next(row_block, k_tile)) {
      fetch_slab(fetched_++, row_block, k_tile);
      ring_.advance(p_.stages);
    }
  }

  // All that is left. Blocks that share x must have set up their barriers.
  __device__ void fetch_rest() {
    wait_for_previous();
    int row_block, k_tile;
    if (p_.resident_x) {
      Segment any;
      Schedule(p_).next(any);
      for (int slot = 0; slot < any.last - any.first; ++slot) {
        arrive_and_expect(memory_.x_full(slot), Shape::kXBytes);
        fetch_x(slot, any.first + slot, memory_.x_full(slot));
      }
    } else {
      Slabs behind(p_);
      for (int stage = 0; stage < fetched_; ++stage) {
        behind.next(row_block, k_tile);
        fetch_x(stage, k_tile, memory_.full(stage));
      }
    }
    while (slabs_.next(row_block, k_tile)) {
      wait_for_exchanges();
      wait_barrier(memory_.empty(ring_.stage), ring_.parity);
      fetch_slab(ring_.stage, row_block, k_tile);
      if (!p_.resident_x) fetch_x(ring_.stage, k_tile, memory_.full(ring_.stage));
      ring_.advance(p_.stages);
    }
    if (p_.group_rows > 1) wait_for_neighbours();
  }

 private:
  // Until the exchanges in front of the segment of the last slab no longer use the stages.
  __device__ void wait_for_exchanges() {
    for (; exchange_in_ring_ && exchanges_ < slabs_.segments_before(); ++exchanges_)
      wait_barrier(memory_.refill(), exchanges_ & 1);
  }

  // Until the blocks that use the same x have arrived at this one's barriers for the last time: a block must
  // not end before.
  __device__ void wait_for_neighbours() {
    wait_for_exchanges();
    for (int i = 0; i < p_.stages; ++i) {
      wait_barrier(memory_.empty(ring_.stage), ring_.parity);
      ring_.advance(p_.stages);
    }
  }

  __device__ void fetch_slab(int stage, int row_block, int k_tile) {
    arrive_and_expect(memory_.full(stage), Shape::kSlabBytes + (p_.resident_x ? 0 : Shape::kXBytes));
    // Past the last row block any weight will do: y has no such rows.
    const std::int64_t slab =
        static_cast<std::int64_t>(min(row_block, p_.row_blocks - 1)) * p_.k_tiles + k_tile;
    copy_bulk(memory_.slab(stage), p_.slabs + slab * Shape::kSlabBytes, Shape::kSlabBytes,
              memory_.full(stage), evict_first_policy());
  }

  // Of the blocks that use the same x, each fetches its part of the tokens for all.
  __device__ void fetch_x(int slot, int k_tile, std::uint32_t barrier) {
    if (p_.group_rows == 1) {
      copy_tile(memory_.x(slot), x_map_, k_tile * 128, p_.token_begin, barrier, evict_last_policy());
    } else {
      int ranks = 0;
      for (int part = 0; part < p_.group_rows; ++part) ranks |= 1 << place_.rank_of_part(part);
      const int token = place_.part * (p_.group_rows == 2 ? Shape::kTokens / 2 : Shape::kTokens / 4);
      copy_tile_to_ranks(memory_.x(slot) + token * 128, x_map_, k_tile * 128, p_.token_begin + token, barrier,
                         static_cast<std::uint16_t>(ranks));
    }
  }

  const Stream24Params& p_;
  const CUtensorMap* x_map_;
  const StreamMemory<Shape>& memory_;
  const ClusterPlace place_;
  Slabs slabs_;
  RingPosition ring_{0, 1};  // a stage that was never filled is empty
  int fetched_ = 0;
  int exchanges_ = 0;  // that have been waited for
  bool exchange_in_ring_;
};

// A warp has read a stage: the blocks that fill it must know.
template <typename Shape>
__device__ __forceinline__ void release(const Stream24Params& p, const StreamMemory<Shape>& memory,
                                        int stage) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (p.group_rows == 1) {
    if (lane == 0) arrive(memory.empty(stage));
  } else if (lane < p.group_rows) {
    arrive_remote(map_to_rank(memory.empty(stage), ClusterPlace(p).rank_of_part(lane)));
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
    release(p, memory, ring.stage);
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
  if (static_cast<int>(threadIdx.x) < p.tokens) {
    const float scale =
        p.x_scale != nullptr ? p.x_scale[p.token_begin + static_cast<int>(threadIdx.x)] : 1.0f;
    store_shared(memory.token_scales() + 4 * threadIdx.x, __float_as_uint(scale));
  }
  wait_cluster();
  sync_threads(1, kConsumers);  // the scales are there
  typename Shape::Accumulator total[Shape::kTokens / 2];
  RingPosition ring;
  Exchange<Shape> exchange(memory);
  Schedule segments(p);
  Segment segment;
  while (segments.next(segment)) {
    prefetch_features(p, segment.row_block);
    multiply_segment<Shape>(p, memory, ring, segment.last - segment.first, total);
    exchange.finish(p, segment, total);
  }
}

// The producer's warp.
template <typename Shape>
__device__ void produce(const Stream24Params& p, const CUtensorMap* x_map,
                        const StreamMemory<Shape>& memory) {
  Producer<Shape> producer(p, x_map, memory);
  const bool producing = threadIdx.x == kConsumers;
  if (producing) producer.fetch_first_slabs();
  __syncwarp();
  if (p.group_rows > 1) wait_cluster();
  if (producing) producer.fetch_rest();
  __syncwarp();
  if (p.group_rows == 1) wait_cluster();
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
      init_barrier(memory.empty(i), kConsumers / 32 * p.group_rows);
    }
    for (int i = 0; i < (p.resident_x ? p.x_slots : 0); ++i) init_barrier(memory.x_full(i), 1);
    const int splits = ClusterPlace(p).splits;
    init_barrier(memory.ready(), kConsumers / 32 / splits);
    init_barrier(memory.open(), kConsumers / 32 * splits);
    init_barrier(memory.refill(), kConsumers / 32 * p.group_rows);
    fence_barrier_init();
  }
  __syncthreads();
  launch_dependents();
  arrive_cluster();
  if (threadIdx.x >= kConsumers) {
    produce<Shape>(p, &x_map, memory);
  } else {
    consume<Shape>(p, memory);
  }
#endif
}

}  // namespace grille::kernels::sm90
