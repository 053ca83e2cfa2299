// The large-batch 2:4 kernel: persistent, warp-specialised, in clusters that share x.
#pragma once

#include "grille/kernels/cuda/device/matmul_24_large_epilogue.cuh"
#include "grille/kernels/cuda/device/matmul_24_large_mainloop.cuh"
#include "grille/kernels/cuda/device/matmul_24_large_partials.cuh"

namespace grille::kernels::sm90 {

template <class Tile>
__device__ __forceinline__ void init_stage_barriers(std::uint32_t shared) {
  constexpr int kWarpsThatRelease = 8 * kLargeClusterRows;
  for (int i = 0; i < Tile::kStages; ++i) {
    init_barrier(shared + Tile::kBarriersAt + 8 * i, 1);
    init_barrier(shared + Tile::kBarriersAt + 8 * (Tile::kStages + i), kWarpsThatRelease);
  }
  fence_barrier_init();
}

template <class Tile>
__device__ __forceinline__ void consume_tiles(const LargeParams& p, std::uint32_t shared) {
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  StageConsumer<Tile> stages(shared, warpgroup);
  LargeEpilogue<Tile> epilogue(p, shared);
  LargeSchedule<Tile::kSplits> schedule(p);
  LargeWork work;
  typename StageConsumer<Tile>::Sums sums;
  wait_for_previous();
  while (schedule.next(work)) {
    const bool owned = work.k_begin == 0;
    // With two m64 blocks a warpgroup, sums leave no registers for it inside the pipeline.
    if (Tile::kBlocks == 2) epilogue.begin(place_of_tile(p, work.tile));
    stages.multiply(sums, work.k_end - work.k_begin, [&] {
      if (Tile::kBlocks == 1 && owned) epilogue.begin(place_of_tile(p, work.tile));
    });
    if constexpr (Tile::kSplits) {
      const LargePartials<Tile> partials(p);
      if (!owned) {
        partials.hand_over(sums);
        continue;
      }
      partials.add(sums, schedule.helpers(work));
    }
    epilogue.finish(sums, place_of_tile(p, work.tile));
  }
  epilogue.drain();
}

template <class Tile>
__device__ __forceinline__ void produce_stages(const LargeParams& p, std::uint32_t shared) {
  StageProducer<Tile> stages(p, shared);
  LargeSchedule<Tile::kSplits> schedule(p);
  LargeWork work;
  if (!schedule.next(work)) return;
  stages.start(work, place_of_tile(p, work.tile));
  while (schedule.next(work)) stages.run(work.k_begin, work.k_end, place_of_tile(p, work.tile));
}

template <class Tile>
__device__ __forceinline__ void run_large(const LargeParams& p, const std::uint8_t* raw) {
  const std::uint32_t shared = (shared_address(raw) + 1023u) & ~1023u;
  if (threadIdx.x == 0) {
    init_stage_barriers<Tile>(shared);
    prefetch_map(&p.x_map);
    if (p.y_by_map) prefetch_map(&p.y_map);
  }
  __syncthreads();
  arrive_cluster();
  wait_cluster();
  launch_dependents();
  if (threadIdx.x >= 256) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 256) produce_stages<Tile>(p, shared);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume_tiles<Tile>(p, shared);
  }
  __syncwarp();
  arrive_cluster();  // no block may leave while the other still arrives at its barriers
  wait_cluster();
}

template <class Tile>
__global__ void __launch_bounds__(kLargeThreads, 1)
    matmul_24_large_kernel(const __grid_constant__ LargeParams p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ std::uint8_t raw[];
  run_large<Tile>(p, raw);
#else
  __trap();  // the launcher refuses a build without sm_90a code
#endif
}

template <class Tile>
LargeKernel large_kernel() {
  return {reinterpret_cast<const void*>(&matmul_24_large_kernel<Tile>),
          Tile::kRows,
          Tile::kTokens,
          Tile::kSplits,
          Tile::kPromotion > 0,
          Tile::kSharedBytes};
}

}  // namespace grille::kernels::sm90
