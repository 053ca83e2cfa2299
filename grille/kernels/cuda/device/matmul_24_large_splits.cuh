// Sums of a tile whose k is shared by several blocks of a cluster.
#pragma once

#include "grille/kernels/cuda/device/barrier.cuh"
#include "grille/kernels/cuda/device/matmul_24_large_mainloop.cuh"

namespace grille::kernels {

__device__ __forceinline__ std::uint32_t remote_address(std::uint32_t address, int rank) {
  std::uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

template <class T>
__device__ __forceinline__ void store_remote(std::uint32_t at, const T* values) {
  std::uint32_t bits[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) bits[i] = __builtin_bit_cast(std::uint32_t, values[i]);
  asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(bits[0]), "r"(bits[1]),
               "r"(bits[2]), "r"(bits[3])
               : "memory");
}

template <class T>
__device__ __forceinline__ void load_local(std::uint32_t at, T* values) {
  std::uint32_t bits[4];
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
               : "r"(at)
               : "memory");
#pragma unroll
  for (int i = 0; i < 4; ++i) values[i] = __builtin_bit_cast(T, bits[i]);
}

// Each of the `splits` blocks finishes kChunks / splits chunks of the tile: it gets the others' sums of them
// into its stages, which are idle by then, and adds all in the order of k, so that the result is the same in
// every run. Other chunks of `sums` are left as they are. Every thread of the cluster must pass two
// cluster_sync() meanwhile.
template <class Tile>
__device__ __forceinline__ void sum_splits(typename StageConsumer<Tile>::Sums& sums,
                                           const ClusterPlace& place, int splits, std::uint32_t shared) {
  static_assert(Tile::kBlocks == 1);
  constexpr int kChunkBytes = 256 * 16 * 4;  // 16 sums of each consumer thread
  const int owned = Tile::kChunks / splits;
  const std::uint32_t mine = 16 * threadIdx.x;
  const auto slot = [&](int source, int owner, int chunk) {
    const int index = (source < owner ? source : source - 1) * owned + chunk - owner * owned;
    return shared + index * kChunkBytes + mine;
  };
  cluster_sync();  // no block uses its stages any more
#pragma unroll
  for (int chunk = 0; chunk < Tile::kChunks; ++chunk) {
    const int owner = chunk / owned;
    if (owner == place.split) continue;
    const std::uint32_t at =
        remote_address(slot(place.split, owner, chunk), owner * kClusterRows + place.row);
#pragma unroll
    for (int i = 0; i < 4; ++i) store_remote(at + 4096 * i, &sums[0][16 * chunk + 4 * i]);
  }
  cluster_sync();
#pragma unroll
  for (int chunk = 0; chunk < Tile::kChunks; ++chunk) {
    if (chunk / owned != place.split) continue;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      typename Tile::Sum total[4] = {};
      for (int source = 0; source < splits; ++source) {
        typename Tile::Sum part[4];
        if (source == place.split) {
#pragma unroll
          for (int j = 0; j < 4; ++j) part[j] = sums[0][16 * chunk + 4 * i + j];
        } else {
          load_local(slot(source, place.split, chunk) + 4096 * i, part);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) total[j] += part[j];
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[0][16 * chunk + 4 * i + j] = total[j];
    }
  }
}

}  // namespace grille::kernels
