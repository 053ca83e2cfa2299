// The pipeline of the large-batch 2:4 kernels: one thread copies stages, two warpgroups multiply them.
#pragma once

#include "grille/kernels/cuda/device/matmul_24_large_schedule.cuh"
#include "grille/kernels/cuda/device/matmul_24_large_tile.cuh"
#include "grille/kernels/cuda/device/sm90_ptx.cuh"

namespace grille::kernels::sm90 {

// Where in the ring of stages a warp is, and on which lap.
template <int kStages>
struct RingPosition {
  int stage = 0;
  int lap = 0;  // 0 or 1

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      lap ^= 1;
    }
  }
};

// The thread that keeps the stages full.
template <class Tile>
class StageProducer {
 public:
  __device__ __forceinline__ StageProducer(const LargeParams& p, std::uint32_t shared)
      : p_(p),
        x_half_(Tile::kTokens / kLargeClusterRows * static_cast<int>(cluster_rank())),
        shared_(shared),
        full_(shared + Tile::kBarriersAt) {}

  // The weight does not depend on the kernel before this one, x does: the first stages' weights are asked for
  // before that kernel has ended.
  __device__ __forceinline__ void start(const LargeWork& work, const LargePlace& place) {
    const int ahead = min(Tile::kStages, work.k_end - work.k_begin);
    for (int i = 0; i < ahead; ++i) {
      arrive_and_expect(full_ + 8 * i, Tile::kStageBytes);
      copy_weight(place, work.k_begin + i, i);
    }
    wait_for_previous();
    for (int i = 0; i < ahead; ++i) copy_x(place, work.k_begin + i, i);
    position_ = {ahead % Tile::kStages, ahead / Tile::kStages};
    run(work.k_begin + ahead, work.k_end, place);
  }

  __device__ __forceinline__ void run(int k_begin, int k_end, const LargePlace& place) {
    for (int k_tile = k_begin; k_tile < k_end; ++k_tile) {
      const int stage = position_.stage;
      wait_barrier(full_ + 8 * (Tile::kStages + stage), position_.lap ^ 1);
      arrive_and_expect(full_ + 8 * stage, Tile::kStageBytes);
      copy_x(place, k_tile, stage);
      copy_weight(place, k_tile, stage);
      position_.advance();
    }
  }

 private:
  __device__ __forceinline__ void copy_x(const LargePlace& place, int k_tile, int stage) {
    copy_tile_to_ranks(shared_ + stage * Tile::kStageBytes + x_half_ * 128, &p_.x_map, k_tile * 128,
                       place.token_tile * Tile::kTokens + x_half_, full_ + 8 * stage, std::uint16_t{3});
  }

  __device__ __forceinline__ void copy_weight(const LargePlace& place, int k_tile, int stage) {
#pragma unroll
    for (int i = 0; i < Tile::kBlocks; ++i) {
      // Past the last row block (an odd number of tiles in the last cluster) any weight will do: the copy
      // engine drops what is outside y.
      const int row_block = min(place.row_tile * Tile::kBlocks + i, p_.row_blocks - 1);
      copy_bulk(shared_ + stage * Tile::kStageBytes + Tile::kXBytes + i * Tile::kSlabBytes,
                p_.slabs + (static_cast<std::int64_t>(row_block) * p_.k_tiles + k_tile) * Tile::kSlabBytes,
                Tile::kSlabBytes, full_ + 8 * stage);
    }
  }

  const LargeParams& p_;
  const int x_half_;  // the tokens that this block copies, to both
  const std::uint32_t shared_, full_;
  RingPosition<Tile::kStages> position_;
};

// One warpgroup's side.
template <class Tile>
class StageConsumer {
 public:
  using Sums = typename Tile::Sum[Tile::kBlocks][Tile::kAccumulators];
  using Metadata = std::uint32_t[Tile::kBlocks][2];

  __device__ __forceinline__ StageConsumer(std::uint32_t shared, int warpgroup)
      : shared_(shared),
        full_(shared + Tile::kBarriersAt),
        warpgroup_(warpgroup),
        thread_(static_cast<int>(threadIdx.x) % 128) {}

  // sums = the products of `k_tiles` (at least 1) stages. All stages are released when it returns.
  // `meanwhile` runs once, when the tensor cores have their first work.
  template <class Meanwhile>
  __device__ __forceinline__ void multiply(Sums& sums, int k_tiles, const Meanwhile& meanwhile) {
    Metadata metadata[2];
    typename Tile::Sum promoted[Tile::kPromotion > 0 ? Tile::kAccumulators : 1];
    static_assert(Tile::kPromotion % 2 == 0 && (Tile::kPromotion == 0 || Tile::kBlocks == 1));
    previous_ = -1;
    int accumulate = 0;
    wait_barrier(full_ + 8 * position_.stage, position_.lap);
    load_metadata(metadata[0]);
    fence_sums(sums);
    for (int k_tile = 0; k_tile < k_tiles; k_tile += 2) {
      if constexpr (Tile::kPromotion > 0) {
        if (k_tile % Tile::kPromotion == 0 && k_tile > 0) {
          wait_wgmma<0>();
          fence_sums(sums);
          add_promoted(promoted, sums[0], k_tile > Tile::kPromotion);
          accumulate = 0;
        }
      }
      multiply_stage(sums, metadata[0], metadata[1], accumulate, k_tile + 1 < k_tiles);
      accumulate = 1;
      if (k_tile == 0) meanwhile();
      if (k_tile + 1 == k_tiles) break;
      multiply_stage(sums, metadata[1], metadata[0], accumulate, k_tile + 2 < k_tiles);
    }
    wait_wgmma<0>();
    fence_sums(sums);
    release(previous_);
    if constexpr (Tile::kPromotion > 0) {
      if (k_tiles > Tile::kPromotion) {
#pragma unroll
        for (int i = 0; i < Tile::kAccumulators; ++i) sums[0][i] += promoted[i];
      }
    }
  }

 private:
  static __device__ __forceinline__ void fence_sums(Sums& sums) {
#pragma unroll
    for (int i = 0; i < Tile::kBlocks; ++i) fence_registers(sums[i]);
  }

  template <class T, int kCount>
  static __device__ __forceinline__ void add_promoted(T (&promoted)[kCount], const T (&sums)[kCount],
                                                      bool accumulate) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) promoted[i] = accumulate ? promoted[i] + sums[i] : sums[i];
  }

  // With one m64 block each, the warpgroups share a slab; with two, each has its own.
  __device__ __forceinline__ std::uint32_t slab() const {
    const int index = Tile::kBlocks == 1 ? 0 : warpgroup_;
    return shared_ + position_.stage * Tile::kStageBytes + Tile::kXBytes + index * Tile::kSlabBytes;
  }
  __device__ __forceinline__ int block_in_slab(int block) const {
    return Tile::kBlocks == 1 ? warpgroup_ : block;
  }

  // Read a k-tile ahead: a load just before its wgmma would make the compiler serialise the pipeline.
  __device__ __forceinline__ void load_metadata(Metadata& metadata) const {
#pragma unroll
    for (int i = 0; i < Tile::kBlocks; ++i) {
      const std::uint32_t at =
          slab() + Tile::kSlabValueBytes + (block_in_slab(i) * 128 + thread_) * 4 * Tile::kMetadataWords;
      if constexpr (Tile::kMetadataWords == 2) {
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                     : "=r"(metadata[i][0]), "=r"(metadata[i][1])
                     : "r"(at)
                     : "memory");
      } else {  // one word serves both k-steps, through the selector
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(metadata[i][0]) : "r"(at) : "memory");
        metadata[i][1] = metadata[i][0];
      }
    }
  }

  __device__ __forceinline__ void multiply_stage(Sums& sums, const Metadata& metadata, Metadata& next,
                                                 int accumulate, bool more) {
    using Multiply = SparseWgmma<Tile::kType, Tile::kTokens>;
    const std::uint64_t x = operand_descriptor<128>(shared_ + position_.stage * Tile::kStageBytes);
    fence_sums(sums);
    fence_wgmma();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int i = 0; i < Tile::kBlocks; ++i) {
        const std::uint64_t weight = operand_descriptor<64>(slab() + block_in_slab(i) * 4096) + 2 * step;
        constexpr int kSecond = Tile::kEightBit ? 0 : 1;
        if (step == 0) {
          Multiply::template mma<0>(sums[i], weight, x, metadata[i][0], accumulate);
        } else {
          Multiply::template mma<kSecond>(sums[i], weight, x + 4, metadata[i][1], 1);
        }
      }
    }
    commit_wgmma();
    wait_wgmma<1>();
    fence_sums(sums);
    release(previous_);
    previous_ = position_.stage;
    position_.advance();
    if (more) {
      wait_barrier(full_ + 8 * position_.stage, position_.lap);
      load_metadata(next);
    }
  }

  // Both blocks wrote x into this stage, so both must know that it is free.
  __device__ __forceinline__ void release(int stage) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (stage >= 0 && lane < kLargeClusterRows)
      arrive_remote(map_to_rank(full_ + 8 * (Tile::kStages + stage), lane));
  }

  const std::uint32_t shared_, full_;
  const int warpgroup_, thread_;
  RingPosition<Tile::kStages> position_;
  int previous_ = -1;
};

}  // namespace grille::kernels::sm90
