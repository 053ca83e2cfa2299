// The shape of an instance of the streaming 2:4 kernel, and its shared memory.
#pragma once

#include <type_traits>

#include "grille/kernels/cuda/device/sm90_ptx.cuh"
#include "grille/kernels/cuda/stream_24_params.h"

namespace grille::kernels::sm90 {

template <Sm90Type kElementType, int kTokenTile>
struct StreamShape {
  static constexpr Sm90Type kType = kElementType;
  static constexpr int kTokens = kTokenTile;
  static constexpr int kElementBytes = kType == Sm90Type::kBFloat16 || kType == Sm90Type::kFloat16 ? 2 : 1;
  static constexpr formats::TwoFourSm90Layout kLayout{128, 128, kElementBytes};
  static constexpr int kSlabBytes = static_cast<int>(kLayout.slab_bytes());
  static constexpr int kWords = kLayout.metadata_words();
  static constexpr int kXBytes = kTokens * 128;
  static_assert(kSlabBytes % 1024 == 0 && kXBytes % 1024 == 0, "operands are 1024-byte aligned");
  // The tensor cores add up float8 products with fewer bits than fp32, so sums of a few k-tiles are promoted.
  // With more tokens there are no registers for that, and a block's share of k is one sum.
  static constexpr bool kPromote = kType == Sm90Type::kFloat8E4M3 && kTokens <= 32;
  // Stages between two waits for the tensor cores, 1 or 2.
  static constexpr int kBatch = kTokens <= 32 ? 2 : 1;
  static constexpr int kChunks = kTokens / 8;  // of a warp's sums
  static constexpr int kRound = stream_24_round(kTokens);

  using Accumulator = std::conditional_t<kType == Sm90Type::kInt8, int, float>;
};

// Addresses in a block's shared memory, computed where they are needed: registers are scarce.
// Stream24Memory has the sum of it all.
template <typename Shape>
class StreamMemory {
 public:
  __device__ StreamMemory(const void* dynamic, const Stream24Params& p)
      : p_(p), base_((shared_address(dynamic) + 1023) & ~1023u) {}

  __device__ std::uint32_t slab(int stage) const {
    return base_ + static_cast<std::uint32_t>(stage * Shape::kSlabBytes);
  }
  // The k-tiles of x: one a stage, or all that the block needs.
  __device__ std::uint32_t x(int slot) const {
    return slab(p_.stages) + static_cast<std::uint32_t>(slot * Shape::kXBytes);
  }
  __device__ std::uint32_t exchange() const { return base_ + static_cast<std::uint32_t>(p_.exchange_at); }
  __device__ std::uint32_t token_scales() const {
    return base_ + static_cast<std::uint32_t>(p_.token_scales_at);
  }
  // Barriers: a stage is filled; it has been read; all parts for this block are there; all blocks that add up
  // with this one can take parts; where the parts take the place of the stages, those can be filled again.
  __device__ std::uint32_t full(int stage) const {
    return token_scales() + 128 * 4 + 8 * static_cast<std::uint32_t>(stage);
  }
  __device__ std::uint32_t empty(int stage) const { return full(p_.stages + stage); }
  __device__ std::uint32_t ready() const { return full(2 * p_.stages); }
  __device__ std::uint32_t open() const { return full(2 * p_.stages + 1); }
  __device__ std::uint32_t refill() const { return full(2 * p_.stages + 2); }
  __device__ std::uint32_t scratch() const { return full(2 * p_.stages + 3); }
  __device__ std::uint32_t x_full(int slot) const {
    return full(2 * p_.stages + 4 + slot);
  }  // resident x only

 private:
  const Stream24Params& p_;
  std::uint32_t base_;
};

}  // namespace grille::kernels::sm90
