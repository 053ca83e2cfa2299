// The large-batch 2:4 kernel: persistent, warp-specialised, in clusters that share x.
#pragma once

#include "grille/kernels/cuda/device/matmul_24_large_mainloop.cuh"
#include "grille/kernels/cuda/device/matmul_24_large_epilogue.cuh"
#include "grille/kernels/cuda/device/matmul_24_large_splits.cuh"

namespace grille::kernels {

template <class Tile>
__device__ __forceinline__ void init_stage_barriers(std::uint32_t shared) {
  constexpr int kWarpsThatRelease = 8 * kClusterRows;
  for (int i = 0; i < Tile::kStages; ++i) {
    init_barrier(shared + Tile::kBarriersAt + 8 * i, 1);
    init_barrier(shared + Tile::kBarriersAt + 8 * (Tile::kStages + i), kWarpsThatRelease);
  }
  fence_barrier_init();
}

template <class Tile>
__device__ __forceinline__ void consume_tiles(const LargeParams& p, const ClusterPlace& place,
                                              std::uint32_t shared, int first_tile, int tile_step) {
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  StageConsumer<Tile> stages(place, shared, warpgroup);
  LargeEpilogue<Tile> epilogue(p, shared, warpgroup);
  typename StageConsumer<Tile>::Sums sums;
  wait_for_previous_kernel();
  for (int tile = first_tile; tile < p.row_groups * p.token_tiles; tile += tile_step) {
    const LargeWork work = large_work(p, tile, place);
    epilogue.begin(work);
    stages.multiply(sums, work.k_end - work.k_begin);
    int first_chunk = 0;
    int last_chunk = Tile::kChunks;
    if constexpr (Tile::kSplits) {
      if (p.splits > 1) {
        first_chunk = Tile::kChunks / p.splits * place.split;
        last_chunk = first_chunk + Tile::kChunks / p.splits;
        sum_splits<Tile>(sums, place, p.splits, shared);
      }
    }
    epilogue.finish(sums, first_chunk, last_chunk);
  }
  epilogue.drain();
}

template <class Tile>
__global__ void __launch_bounds__(kLargeThreads, 1)
    matmul_24_large_kernel(const __grid_constant__ LargeParams p) {
  extern __shared__ std::uint8_t raw[];
  const std::uint32_t shared = (shared_address(raw) + 1023u) & ~1023u;
  const ClusterPlace place = cluster_place<Tile>();
  const int blocks_in_cluster = kClusterRows * (Tile::kSplits ? p.splits : 1);
  const int first_tile = static_cast<int>(blockIdx.x) / blocks_in_cluster;
  const int tile_step = static_cast<int>(gridDim.x) / blocks_in_cluster;
  if (threadIdx.x == 0) {
    init_stage_barriers<Tile>(shared);
    prefetch_tensor_map(&p.x_map);
    if (p.y_by_map) prefetch_tensor_map(&p.y_map);
  }
  __syncthreads();
  cluster_sync();
  let_next_kernel_start();
  if (threadIdx.x >= 256) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 256) {
      StageProducer<Tile> stages(p, place, shared);
      stages.start(large_work(p, first_tile, place));
      for (int tile = first_tile + tile_step; tile < p.row_groups * p.token_tiles; tile += tile_step) {
        const LargeWork work = large_work(p, tile, place);
        stages.run(work, work.k_begin);
      }
    }
    __syncwarp();
    if constexpr (Tile::kSplits) {
      if (p.splits > 1) {  // the consumers' two in sum_splits
        cluster_sync();
        cluster_sync();
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume_tiles<Tile>(p, place, shared, first_tile, tile_step);
    __syncwarp();
  }
  cluster_sync();  // no block may leave while another still arrives at its barriers or reads its memory
}

}  // namespace grille::kernels
