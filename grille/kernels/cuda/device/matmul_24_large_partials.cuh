// Sums of a tile whose k is shared by several clusters, through global memory.
#pragma once

#include <cstdint>

#include "grille/kernels/cuda/device/matmul_24_large_tile.cuh"
#include "grille/kernels/cuda/device/sm90_ptx.cuh"

namespace grille::kernels::sm90 {

// A block has room for one tile, in the order of the consumers' registers, and a flag a warpgroup.
template <class Tile>
class LargePartials {
 public:
  using Sums = typename Tile::Sum[Tile::kBlocks][Tile::kAccumulators];

  __device__ __forceinline__ LargePartials(const LargeParams& p)
      : p_(p), warpgroup_(static_cast<int>(threadIdx.x) / 128) {}

  // Leaves the sums to the block in front.
  __device__ __forceinline__ void hand_over(const Sums& sums) const {
    uint4* to = place_of(static_cast<int>(blockIdx.x));
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < Tile::kAccumulators; i += 4) {
        uint4 four;
        four.x = __builtin_bit_cast(std::uint32_t, sums[block][i]);
        four.y = __builtin_bit_cast(std::uint32_t, sums[block][i + 1]);
        four.z = __builtin_bit_cast(std::uint32_t, sums[block][i + 2]);
        four.w = __builtin_bit_cast(std::uint32_t, sums[block][i + 3]);
        __stcg(to + (block * Tile::kAccumulators + i) / 4 * kThreads, four);
      }
    }
    __threadfence();
    sync_threads(kBarrier + warpgroup_, 128);
    if (threadIdx.x % 128 == 0) {
      asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag_of(static_cast<int>(blockIdx.x))), "r"(1)
                   : "memory");
    }
  }

  // Adds what the next `helpers` clusters left, in their order: the same in every run.
  __device__ __forceinline__ void add(Sums& sums, int helpers) const {
    for (int helper = 1; helper <= helpers; ++helper) {
      const int from_block = static_cast<int>(blockIdx.x) + helper * kLargeClusterRows;
      if (threadIdx.x % 128 == 0) take_flag(flag_of(from_block));
      sync_threads(kBarrier + warpgroup_, 128);
      const uint4* from = place_of(from_block);
#pragma unroll
      for (int block = 0; block < Tile::kBlocks; ++block) {
#pragma unroll
        for (int i = 0; i < Tile::kAccumulators; i += 4) {
          const uint4 four = __ldcg(from + (block * Tile::kAccumulators + i) / 4 * kThreads);
          sums[block][i] += __builtin_bit_cast(typename Tile::Sum, four.x);
          sums[block][i + 1] += __builtin_bit_cast(typename Tile::Sum, four.y);
          sums[block][i + 2] += __builtin_bit_cast(typename Tile::Sum, four.z);
          sums[block][i + 3] += __builtin_bit_cast(typename Tile::Sum, four.w);
        }
      }
    }
  }

 private:
  static constexpr int kThreads = 256;
  static constexpr int kBarrier = 1;  // named barriers 1 and 2: one a warpgroup

  // Waits for the flag and leaves it zero, for the next launch.
  static __device__ __forceinline__ void take_flag(std::uint32_t* flag) {
    std::uint32_t value = 0;
    while (value == 0) {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    }
    *flag = 0;
  }

  __device__ __forceinline__ uint4* place_of(int block) const {
    return reinterpret_cast<uint4*>(p_.partials) +
           static_cast<std::int64_t>(block) * (Tile::kRows * Tile::kTokens / 4) + threadIdx.x;
  }
  __device__ __forceinline__ std::uint32_t* flag_of(int block) const {
    return p_.flags + 2 * block + warpgroup_;
  }

  const LargeParams& p_;
  const int warpgroup_;
};

}  // namespace grille::kernels::sm90
