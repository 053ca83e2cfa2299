// The end of the streaming 2:4 kernel: a cluster's blocks add up, clusters that share a row block add up, and
// y is written.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "grille/kernels/cuda/device/sm90_ptx.cuh"
#include "grille/kernels/cuda/device/stream_24_memory.cuh"
#include "grille/kernels/cuda/device/stream_24_schedule.cuh"
#include "grille/kernels/cuda/stream_24_params.h"

namespace grille::kernels::sm90 {

// Four neighbouring rows of one token.
template <typename T>
union Quad {
  uint4 bits;
  T value[4];
};

template <typename Element>
__device__ __forceinline__ float to_float(Element value) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) return __bfloat162float(value);
  if constexpr (std::is_same_v<Element, __half>) return __half2float(value);
  if constexpr (std::is_same_v<Element, float>) return value;
}

template <typename Element>
__device__ __forceinline__ Element from_float(float value) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) return __float2bfloat16_rn(value);
  if constexpr (std::is_same_v<Element, __half>) return __float2half_rn(value);
  if constexpr (std::is_same_v<Element, float>) return value;
}

// Adds the residual and writes `count` (1 to 4) of the four values.
template <typename Element>
__device__ __forceinline__ void store_quad(const Stream24Params& p, int token, int row, int count,
                                           float (&value)[4]) {
  using Vector = std::conditional_t<sizeof(Element) == 4, uint4, uint2>;
  union {
    Vector bits;
    Element element[4];
  } quad;
  const std::int64_t index = p.token_begin + token;
  Element* y = static_cast<Element*>(p.y) + index * p.y_stride + row;
  const Element* residual = static_cast<const Element*>(p.residual) + index * p.residual_stride + row;
  const bool vector = p.vector_output && count == 4;
  if (p.residual != nullptr) {
    if (vector) {
      quad.bits = *reinterpret_cast<const Vector*>(residual);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) quad.element[i] = i < count ? residual[i] : from_float<Element>(0.0f);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) value[i] += to_float(quad.element[i]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) quad.element[i] = from_float<Element>(value[i]);
  if (vector) {
    *reinterpret_cast<Vector*>(y) = quad.bits;
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count) y[i] = quad.element[i];
    }
  }
}

// Brings scales and biases of a thread's rows near, long before they are needed.
__device__ __forceinline__ void prefetch_features(const Stream24Params& p, int row_block) {
  const int row = row_block * 128 + static_cast<int>(threadIdx.x);
  if (threadIdx.x >= 128 || row >= p.rows) return;
  if (p.weight_scale != nullptr) prefetch(p.weight_scale + row);
  if (p.bias != nullptr) prefetch(p.bias + row);
}

// How the consumers of a cluster add up. A warp's sums, 16 rows of all tokens, go to the block that adds up
// those rows, as they lie in registers: block `split` of `splits` adds up the rows of warps [8 / splits *
// split, + 8 / splits) of all blocks, in the order of splits.
template <typename Shape>
class Exchange {
  using Accumulator = typename Shape::Accumulator;
  static constexpr int kTokens = Shape::kTokens;
  static constexpr int kChunks = Shape::kChunks;

  // What a thread adds up: of every `splits`-th chunk from chunk warp >> warps_shift on, four rows of a
  // token.
  struct Share {
    int warps_shift;  // log2 of the warps whose rows the block adds up
    int row, token;   // in the row block, in a chunk
    float scale[4], bias[4];

    __device__ Share(const Stream24Params& p, const ClusterPlace& place, int row_block)
        : warps_shift(warps_shift_of(place)) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      const int quarter = lane / 4 % 4;  // as transpose() leaves it
      row =
          16 * ((place.split << warps_shift) + local_warp(warps_shift)) + 8 * (quarter / 2) + 4 * (lane / 16);
      token = lane % 4 * 2 + quarter % 2;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int feature = row_block * 128 + row + i;
        const bool inside = feature < p.rows;
        scale[i] = inside && p.weight_scale != nullptr ? __ldg(p.weight_scale + feature) : 1.0f;
        bias[i] = inside && p.bias != nullptr ? __ldg(p.bias + feature) : 0.0f;
      }
    }
  };

 public:
  __device__ explicit Exchange(const StreamMemory<Shape>& memory) : memory_(memory) {}

  __device__ void finish(const Stream24Params& p, const Segment& segment,
                         const Accumulator (&total)[kTokens / 2]) {
    const ClusterPlace place(p);
    const bool alone = place.splits == 1;
    const bool whole = segment.k_begin == 0 && segment.k_end == p.k_tiles;
    const int tile = partial_tile(p, cluster_index(), segment.k_begin == 0 ? 1 : 0, place.part);
    const int chunks = (p.tokens + 7) / 8;
    if (!alone) send_parts(place, chunks, total);
    const Share share(p, place, segment.row_block);
    if (!alone) wait_barrier(memory_.ready(), exchanges_ & 1);
    const int step = alone ? Shape::kRound : kChunks;
#pragma unroll 1
    for (int begin = 0; begin < chunks; begin += step) {
      if (alone) keep_round(begin, total);
      const int end = min(chunks, begin + step);
#pragma unroll 1
      for (int chunk = begin + (warp() >> share.warps_shift); chunk < end; chunk += place.splits) {
        Quad<Accumulator> sum = add_up(place.splits, share.warps_shift, chunk - begin);
        transpose(sum);
        const int token = 8 * chunk + share.token;
        if (token >= p.tokens) continue;
        if (whole) {
          store(p, share, segment.row_block, token, sum);
        } else {
          __stcg(partial(p, share, tile, token), sum.bits);
        }
      }
    }
    if (!alone && !segment.is_last) make_room(p, place);
    ++exchanges_;
    if (!whole) finish_cut(p, place, segment);
  }

 private:
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ int warps_shift_of(const ClusterPlace& place) { return __clz(place.splits) - 28; }
  static __device__ int local_warp(int warps_shift) { return warp() & ((1 << warps_shift) - 1); }

  // Of the parts of block `split`, those of the rows of its `local`-th warp: this thread's piece of chunk 0.
  __device__ std::uint32_t part(int split, int local, int warps_shift, int chunks) const {
    const int index = ((split << warps_shift) + local) * chunks;
    return memory_.exchange() + static_cast<std::uint32_t>(index * kStreamChunkBytes + lane() * 16);
  }

  static __device__ Quad<Accumulator> chunk_of(const Accumulator (&total)[kTokens / 2], int chunk) {
    Quad<Accumulator> quad;
#pragma unroll
    for (int i = 0; i < 4; ++i) quad.value[i] = total[4 * chunk + i];
    return quad;
  }

  // To every block that adds up with this one.
  __device__ void arrive_at_splits(const ClusterPlace& place, std::uint32_t barrier) {
    __syncwarp();
    if (lane() < place.splits) arrive_remote(map_to_rank(barrier, place.rank_of_split(lane())));
  }

  __device__ void send_parts(const ClusterPlace& place, int chunks, const Accumulator (&total)[kTokens / 2]) {
    if (stream_24_exchange_in_ring(kTokens, place.splits)) {  // when all have read all of their stages
      arrive_at_splits(place, memory_.open());
      wait_barrier(memory_.open(), exchanges_ & 1);
    } else if (exchanges_ > 0) {  // when all have read the parts of the exchange before
      wait_barrier(memory_.open(), (exchanges_ - 1) & 1);
    }
    const int shift = warps_shift_of(place);
    const int owner = warp() >> shift;
    const std::uint32_t to = part(place.split, local_warp(shift), shift, kChunks);
    if (owner == place.split) {
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        if (i < chunks) store_shared_quad(to + i * kStreamChunkBytes, chunk_of(total, i).bits);
      }
      __syncwarp();
      if (lane() == 0) arrive_and_expect(memory_.ready(), (place.splits - 1) * chunks * kStreamChunkBytes);
    } else {
      const std::uint32_t there = map_to_rank(to, place.rank_of_split(owner));
      const std::uint32_t barrier = map_to_rank(memory_.ready(), place.rank_of_split(owner));
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        if (i < chunks) send(there + i * kStreamChunkBytes, chunk_of(total, i).bits, barrier);
      }
    }
  }

  // Where no other block adds to a warp's sums, a few chunks at a time go through shared memory, which can be
  // indexed: every thread reads what it has written.
  __device__ void keep_round(int begin, const Accumulator (&total)[kTokens / 2]) {
    const std::uint32_t to = part(0, warp(), 3, Shape::kRound);
#pragma unroll
    for (int first = 0; first < kChunks; first += Shape::kRound) {
      if (first != begin) continue;
#pragma unroll
      for (int i = 0; i < Shape::kRound; ++i)
        store_shared_quad(to + i * kStreamChunkBytes, chunk_of(total, first + i).bits);
    }
  }

  // This warp has read its parts. In the place of stages, they must not be overtaken by what the copy engine
  // will write there.
  __device__ void make_room(const Stream24Params& p, const ClusterPlace& place) {
    if (stream_24_exchange_in_ring(kTokens, place.splits)) {
      fence_before_copy();
      __syncwarp();
      if (lane() < p.group_rows) arrive_remote(map_to_rank(memory_.refill(), place.rank_of_part(lane())));
    } else {
      arrive_at_splits(place, memory_.open());
    }
  }

  // The sums of this warp's rows in a chunk, in the order of splits.
  __device__ Quad<Accumulator> add_up(int splits, int warps_shift, int chunk) {
    const int stored = splits == 1 ? Shape::kRound : kChunks;
    const std::uint32_t first = part(0, local_warp(warps_shift), warps_shift, stored) +
                                static_cast<std::uint32_t>(chunk * kStreamChunkBytes);
    const std::uint32_t stride = static_cast<std::uint32_t>((stored << warps_shift) * kStreamChunkBytes);
    Quad<Accumulator> sum;
    sum.bits = load_shared_quad(first);
#pragma unroll
    for (int split = 1; split < kStreamMaxCluster; ++split) {
      if (split >= splits) break;
      Quad<Accumulator> other;
      other.bits = load_shared_quad(first + static_cast<std::uint32_t>(split) * stride);
#pragma unroll
      for (int i = 0; i < 4; ++i) sum.value[i] += other.value[i];
    }
    return sum;
  }

  // From what wgmma leaves a thread, rows r and r + 8 (r = lane / 4) of tokens t and t + 1 (t = lane % 4 *
  // 2), to four neighbouring rows of one token: a 4 x 4 transposition among the lanes that differ in bits 2
  // and 3.
  static __device__ void transpose(Quad<Accumulator>& quad) {
    const bool first = (lane() & 4) != 0;
    const bool second = (lane() & 8) != 0;
#pragma unroll
    for (int i = 0; i < 4; i += 2) trade(quad.value[i], quad.value[i + 1], first, 4);
#pragma unroll
    for (int i = 0; i < 2; ++i) trade(quad.value[i], quad.value[i + 2], second, 8);
  }
  // The lower lane gives `high` for the upper one's `low`.
  static __device__ void trade(Accumulator& low, Accumulator& high, bool upper, int distance) {
    const Accumulator got = __shfl_xor_sync(0xffffffff, upper ? low : high, distance);
    if (upper) {
      low = got;
    } else {
      high = got;
    }
  }

  // Which partial tile of a cluster's: of the row group that its range begins in (0) or ends in (1).
  static __device__ int partial_tile(const Stream24Params& p, int cluster, int ends, int part) {
    return (2 * cluster + ends) * p.group_rows + part;
  }

  static __device__ uint4* partial(const Stream24Params& p, const Share& share, int tile, int token) {
    return reinterpret_cast<uint4*>(static_cast<std::uint32_t*>(p.partials) +
                                    (static_cast<std::int64_t>(tile) * kTokens + token) * 128 + share.row);
  }

  // The last cluster to come by adds up what all have left of this row block, in their order.
  __device__ void finish_cut(const Stream24Params& p, const ClusterPlace& place, const Segment& segment) {
    const int groups = (p.row_blocks + p.group_rows - 1) / p.group_rows;
    const std::int64_t slabs = static_cast<std::int64_t>(groups) * p.k_tiles;
    const std::int64_t first_slab = static_cast<std::int64_t>(segment.group) * p.k_tiles;
    const int first = stream_24_cluster_of(slabs, p.clusters, first_slab);
    const int last = stream_24_cluster_of(slabs, p.clusters, first_slab + p.k_tiles - 1);
    std::uint32_t* counter = p.counters + first * cluster_size() + cluster_rank();
    sync_threads(1, kConsumers);
    if (threadIdx.x == 0) store_shared(memory_.scratch(), count_up(counter));
    sync_threads(1, kConsumers);
    if (load_shared(memory_.scratch()) != static_cast<std::uint32_t>(last - first)) return;
    if (threadIdx.x == 0) *counter = 0;
    const Share share(p, place, segment.row_block);
    for (int chunk = warp() >> share.warps_shift; 8 * chunk < p.tokens; chunk += place.splits) {
      const int token = 8 * chunk + share.token;
      if (token >= p.tokens) continue;
      Quad<Accumulator> sum;
      sum.bits = __ldcg(partial(p, share, partial_tile(p, first, 1, place.part), token));
      for (int other = first + 1; other <= last; ++other) {
        Quad<Accumulator> part;
        part.bits = __ldcg(partial(p, share, partial_tile(p, other, 0, place.part), token));
#pragma unroll
        for (int j = 0; j < 4; ++j) sum.value[j] += part.value[j];
      }
      store(p, share, segment.row_block, token, sum);
    }
  }

  __device__ void store(const Stream24Params& p, const Share& share, int row_block, int token,
                        const Quad<Accumulator>& sum) {
    const int row = row_block * 128 + share.row;
    const int count = min(4, p.rows - row);
    if (count <= 0) return;
    const float x_scale =
        __uint_as_float(load_shared(memory_.token_scales() + 4 * static_cast<std::uint32_t>(token)));
    float value[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      value[i] = static_cast<float>(sum.value[i]) * x_scale * share.scale[i] + share.bias[i];
    switch (p.output) {
      case StreamOutput::kFloat32: return store_quad<float>(p, token, row, count, value);
      case StreamOutput::kBFloat16: return store_quad<__nv_bfloat16>(p, token, row, count, value);
      case StreamOutput::kFloat16: return store_quad<__half>(p, token, row, count, value);
    }
  }

  StreamMemory<Shape> memory_;
  std::uint32_t exchanges_ = 0;
};

}  // namespace grille::kernels::sm90
