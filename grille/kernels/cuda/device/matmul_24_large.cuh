// The large-batch 2:4 kernel: persistent, warp-specialised, in clusters that share x.
#pragma once

#include "grille/kernels/cuda/device/matmul_24_large_mainloop.cuh"
#include "grille/kernels/cuda/device/matmul_24_large_epilogue.cuh"
#include "grille/kernels/cuda/device/matmul_24_large_partials.cuh"

namespace grille::kernels {

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
  LargeEpilogue<Tile> epilogue(p, shared, warpgroup);
  const LargePartials<Tile> partials(p);
  LargeSchedule schedule(p);
  LargeWork work;
  typename StageConsumer<Tile>::Sums sums;
  wait_for_previous_kernel();
  while (schedule.next(work)) {
    const bool owned = work.k_begin == 0;
    stages.multiply(sums, work.k_end - work.k_begin, [&] {
      if (owned) epilogue.begin(work);
    });
    if (!owned) {
      partials.hand_over(sums);
      continue;
    }
    partials.add(sums, work.helpers);
    epilogue.finish(sums);
  }
  epilogue.drain();
}

template <class Tile>
__device__ __forceinline__ void produce_stages(const LargeParams& p, std::uint32_t shared) {
  StageProducer<Tile> stages(p, shared);
  LargeSchedule schedule(p);
  LargeWork work;
  if (!schedule.next(work)) return;
  stages.start(work);
  while (schedule.next(work)) stages.run(work, work.k_begin);
}

template <class Tile>
__device__ __forceinline__ void run_large(const LargeParams& p, const std::uint8_t* raw) {
  const std::uint32_t shared = (shared_address(raw) + 1023u) & ~1023u;
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
    if (threadIdx.x == 256) produce_stages<Tile>(p, shared);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume_tiles<Tile>(p, shared);
  }
  __syncwarp();
  cluster_sync();  // no block may leave while the other still arrives at its barriers
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
          Tile::kPromotion > 0,
          Tile::kSharedBytes};
}

}  // namespace grille::kernels
