// Tile shapes of the large-batch 2:4 kernels and how they use shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "grille/kernels/cuda/device/stream_24_wgmma.cuh"
#include "grille/kernels/cuda/matmul_24_large_params.h"

namespace grille::kernels::sm90 {

// A block's tile is 128 * kBlocks weight rows x kTokens tokens; each of the two consumer warpgroups holds
// kBlocks times 64 rows. The two blocks of a cluster that share a token tile have neighbouring row tiles.
template <Sm90Type kTypeOf, int kBlocksOf, int kTokensOf, int kStagesOf, bool kSplitsOf = false,
          int kPromotionOf = 0>
struct LargeTile {
  static constexpr Sm90Type kType = kTypeOf;
  static constexpr int kBlocks = kBlocksOf;
  static constexpr int kTokens = kTokensOf;
  static constexpr int kStages = kStagesOf;
  static constexpr bool kSplits = kSplitsOf;  // whether clusters can share a tile's k
  // Sums of the tensor cores (which keep about 14 bits of a float8 sum) are added to fp32 ones after this
  // many k-tiles, an even number; 0: never.
  static constexpr int kPromotion = kPromotionOf;

  static constexpr bool kEightBit = kType == Sm90Type::kFloat8E4M3 || kType == Sm90Type::kInt8;
  static constexpr int kMetadataWords = kEightBit ? 2 : 1;  // of a thread, m64 block and k-tile
  static constexpr int kRows = 128 * kBlocks;
  static constexpr int kAccumulators = kTokens / 2;  // of a thread and m64 block
  static constexpr int kChunks = kTokens / 32;       // the epilogue's unit

  static constexpr int kSlabValueBytes = 128 * 64;
  static constexpr int kSlabBytes = kSlabValueBytes + 2 * 128 * 4 * kMetadataWords;
  static constexpr int kXBytes = kTokens * 128;
  static constexpr int kStageBytes = kXBytes + kBlocks * kSlabBytes;
  static constexpr int kVectorBytes = (kTokens + 2 * 64 * kBlocks) * 4;  // of a warpgroup: scales and bias
  static constexpr int kBufferBytes = 64 * 128;  // 64 tokens x 128 bytes on their way to y

  // What stages leave goes to these buffers: best one for every 64 tokens and m64 block of the tile.
  static constexpr int kUnits = kBlocks * kTokens / 64;
  static constexpr int kRest = 232448 - 1024 - 2 * kVectorBytes - kStages * (kStageBytes + 16);
  static constexpr int kBuffersThatFit = kRest / (2 * kBufferBytes);
  static constexpr int kBuffersWanted = kUnits < 2 ? 2 : kUnits;
  static constexpr int kBuffers = kBuffersThatFit < kBuffersWanted ? kBuffersThatFit : kBuffersWanted;
  static_assert(kBuffers >= 2);

  // Offsets in shared memory, from an address that is a multiple of 1024.
  static constexpr int kBuffersAt = kStages * kStageBytes;
  static constexpr int kVectorsAt = kBuffersAt + 2 * kBuffers * kBufferBytes;
  static constexpr int kBarriersAt = kVectorsAt + 2 * kVectorBytes;
  static constexpr int kSharedBytes = kBarriersAt + kStages * 16 + 1024;

  using Sum = std::conditional_t<kType == Sm90Type::kInt8, int, float>;
};

}  // namespace grille::kernels::sm90
