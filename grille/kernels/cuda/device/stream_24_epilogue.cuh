// The end of the streaming 2:4 kernel: a cluster's blocks add up, clusters that share a row block add up, and
// y is written.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "grille/kernels/cuda/device/sm90_ptx.cuh"
#include "grille/kernels/cuda/device/stream_24_memory.cuh"
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

// How the consumers of a cluster add up. Sums go through the exchange [tokens][132], Shape::kExchange tokens
// at a time; block `rank` adds up the rows [128 / ranks * rank, + 128 / ranks) of all blocks, in the order of
// ranks.
template <typename Shape>
class Exchange {
  using Accumulator = typename Shape::Accumulator;
  static constexpr int kTokens = Shape::kTokens;
  static constexpr int kExchange = Shape::kExchange;
  static constexpr int kStride = kStreamExchangeStride;

  // What a thread adds up: four rows of token (i >> shift), for i = thread, thread + 256, ...
  struct Share {
    int shift, row;
    int ranks;
    float scale[4], bias[4];

    __device__ Share(const Stream24Params& p, int row_block) : ranks(cluster_size()) {
      const int quads = 32 / ranks;
      shift = 31 - __clz(quads);
      row = cluster_rank() * 4 * quads + 4 * (static_cast<int>(threadIdx.x) & (quads - 1));
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

  __device__ void finish(const Stream24Params& p, int row_block, int k_begin, int k_end,
                         const Accumulator (&total)[kTokens / 2]) {
    const bool whole = k_begin == 0 && k_end == p.k_tiles;
    const int slot = 2 * cluster_index() + (k_begin == 0 ? 1 : 0);
#pragma unroll
    for (int begin = 0; begin < kTokens; begin += kExchange) {
      if (begin >= p.tokens) break;
      wait_released();
      write(total, begin);
      __syncwarp();
      arrive_at_all(memory_.ready());
      const Share share(p, row_block);
      wait_barrier(memory_.ready(), passes_ & 1);
      const int tokens = min(kExchange, p.tokens - begin);
      for (int i = static_cast<int>(threadIdx.x); i < tokens << share.shift; i += kConsumers) {
        const int token = i >> share.shift;
        const Quad<Accumulator> sum = add_up(share, token);
        if (whole) {
          store(p, share, row_block, begin + token, sum);
        } else {
          __stcg(partial(p, share, slot, begin + token), sum.bits);
        }
      }
      __syncwarp();
      arrive_at_all(memory_.released());
      ++passes_;
    }
    if (!whole) finish_cut(p, row_block);
  }

  // A block's memory must outlive the reads of the others.
  __device__ void leave() { wait_released(); }

 private:
  __device__ void wait_released() {
    if (passes_ > 0) wait_barrier(memory_.released(), (passes_ - 1) & 1);
  }

  __device__ void write(const Accumulator (&total)[kTokens / 2], int begin) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
    const std::uint32_t base =
        memory_.exchange() + static_cast<std::uint32_t>(lane % 4 * 2 * kStride + row) * 4;
#pragma unroll
    for (int i = 0; i < kExchange / 2; ++i) {
      const int column = i / 4 * 8 + (i & 1);
      const int down = 8 * ((i / 2) & 1);
      // The index is a constant once finish() is unrolled.
      const Accumulator value = begin == 0 ? total[i] : total[(kTokens / 2 - kExchange / 2) + i];
      store_shared(base + static_cast<std::uint32_t>(column * kStride + down) * 4, bits_of(value));
    }
  }

  static __device__ std::uint32_t bits_of(float value) { return __float_as_uint(value); }
  static __device__ std::uint32_t bits_of(int value) { return static_cast<std::uint32_t>(value); }

  __device__ void arrive_at_all(std::uint32_t barrier) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane < cluster_size()) arrive_remote(map_to_rank(barrier, lane));
  }

  __device__ Quad<Accumulator> add_up(const Share& share, int token) {
    const std::uint32_t place =
        memory_.exchange() + static_cast<std::uint32_t>(token * kStride + share.row) * 4;
    Quad<Accumulator> sum;
#pragma unroll
    for (int i = 0; i < 4; ++i) sum.value[i] = 0;
#pragma unroll
    for (int first = 0; first < kStreamMaxCluster; first += 4) {
      if (first >= share.ranks) break;
      Quad<Accumulator> part[4];  // in flight together
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        part[r].bits = {};
        if (first + r < share.ranks) part[r].bits = load_remote(map_to_rank(place, first + r));
      }
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum.value[i] += part[r].value[i];
      }
    }
    return sum;
  }

  static __device__ uint4* partial(const Stream24Params& p, const Share& share, int slot, int token) {
    return reinterpret_cast<uint4*>(static_cast<std::uint32_t*>(p.partials) +
                                    (static_cast<std::int64_t>(slot) * kTokens + token) * 128 + share.row);
  }

  // The last cluster to come by adds up what all have left of this row block, in their order.
  __device__ void finish_cut(const Stream24Params& p, int row_block) {
    const std::int64_t slabs = static_cast<std::int64_t>(p.row_blocks) * p.k_tiles;
    const std::int64_t first_slab = static_cast<std::int64_t>(row_block) * p.k_tiles;
    const int first = stream_24_cluster_of(slabs, p.clusters, first_slab);
    const int last = stream_24_cluster_of(slabs, p.clusters, first_slab + p.k_tiles - 1);
    std::uint32_t* counter = p.counters + first * cluster_size() + cluster_rank();
    sync_threads(1, kConsumers);
    if (threadIdx.x == 0) store_shared(memory_.scratch(), count_up(counter));
    sync_threads(1, kConsumers);
    if (load_shared(memory_.scratch()) != static_cast<std::uint32_t>(last - first)) return;
    if (threadIdx.x == 0) *counter = 0;
    const Share share(p, row_block);
    for (int i = static_cast<int>(threadIdx.x); i < p.tokens << share.shift; i += kConsumers) {
      const int token = i >> share.shift;
      Quad<Accumulator> sum;
      sum.bits = __ldcg(partial(p, share, 2 * first + 1, token));
      for (int other = first + 1; other <= last; ++other) {
        Quad<Accumulator> part;
        part.bits = __ldcg(partial(p, share, 2 * other, token));
#pragma unroll
        for (int j = 0; j < 4; ++j) sum.value[j] += part.value[j];
      }
      store(p, share, row_block, token, sum);
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
  std::uint32_t passes_ = 0;
};

}  // namespace grille::kernels::sm90
