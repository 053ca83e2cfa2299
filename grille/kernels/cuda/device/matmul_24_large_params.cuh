// What the large-batch 2:4 kernels are launched with, and their tiles.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "grille/kernels/cuda/device/sparse_wgmma.cuh"

namespace grille::kernels {

enum class LargeOutput : int { kBFloat16, kFloat16, kFloat32, kFloat8 };

struct LargeParams {
  CUtensorMap x_map;  // bytes [m, k], boxes of [kTokens / 2, 128], 128-byte swizzle, zeros outside
  CUtensorMap y_map;  // [m, features], boxes of one chunk (32 tokens x at most 128 bytes), swizzled by their width
  const std::uint8_t* slabs;  // [row_blocks, k_tiles]: see formats/two_four_sm90.h
  const float* x_scale;       // [m] or null
  const float* weight_scale;  // [n] or null
  const float* bias;          // [n] or null
  const void* residual;       // [m, n] of y's type or null
  void* y;
  float* y_scale;  // float8 output: [m, ceil(features / 128)]
  std::int64_t residual_stride, y_stride, y_scale_stride;  // in elements
  int m, n;
  int k_tiles, row_blocks;
  int row_groups, token_tiles;  // tiles of the whole cluster, and of tokens
  int band;                     // token tiles that are walked together, so that L2 holds their x
  int splits;                   // blocks of the cluster that share one tile's k
  LargeOutput output;
  bool swiglu;             // rows 2 i and 2 i + 1 are gate and up of feature i
  bool y_by_map;           // else y is not aligned for the copy engine
  bool residual_by_16;     // residual rows are aligned to 16 bytes
};

// A block's tile is 128 * kBlocks weight rows x kTokens tokens; each of the two consumer warpgroups holds
// kBlocks times 64 rows. The two blocks of a cluster that share a token tile have neighbouring row tiles.
template <Operand kOperandOf, int kBlocksOf, int kTokensOf, int kStagesOf, int kPromotionOf = 0,
          bool kSplitsOf = false>
struct LargeTile {
  static constexpr Operand kOperand = kOperandOf;
  static constexpr int kBlocks = kBlocksOf;
  static constexpr int kTokens = kTokensOf;
  static constexpr int kStages = kStagesOf;
  // Accumulators of the tensor cores (which keep about 14 bits of a float8 sum) are added to fp32 ones after
  // this many k-tiles, an even number; 0: only at the end.
  static constexpr int kPromotion = kPromotionOf;
  static constexpr bool kSplits = kSplitsOf;  // whether params.splits may be more than 1

  static constexpr bool kEightBit = kOperand == Operand::kFloat8E4M3 || kOperand == Operand::kInt8;
  static constexpr int kMetadataWords = kEightBit ? 2 : 1;  // of a thread, m64 block and k-tile
  static constexpr int kRows = 128 * kBlocks;
  static constexpr int kAccumulators = kTokens / 2;  // of a thread and m64 block
  static constexpr int kChunks = kTokens / 32;       // the epilogue's unit

  static constexpr int kSlabValueBytes = 128 * 64;
  static constexpr int kSlabBytes = kSlabValueBytes + 2 * 128 * 4 * kMetadataWords;
  static constexpr int kXBytes = kTokens * 128;
  static constexpr int kStageBytes = kXBytes + kBlocks * kSlabBytes;
  static constexpr int kStagingBytes = 16 * 1024;  // of a warpgroup: chunks on their way to y
  static constexpr int kVectorBytes = (kTokens + 2 * 64 * kBlocks) * 4;  // of a warpgroup: scales and bias

  // Offsets in shared memory, from an address that is a multiple of 1024.
  static constexpr int kStagingAt = kStages * kStageBytes;
  static constexpr int kVectorsAt = kStagingAt + 2 * kStagingBytes;
  static constexpr int kBarriersAt = kVectorsAt + 2 * kVectorBytes;
  static constexpr int kSharedBytes = kBarriersAt + kStages * 16 + 1024;

  using Sum = typename Accumulator<kOperand>::Type;
};

constexpr int kClusterRows = 2;  // blocks of a cluster that share x
constexpr int kLargeThreads = 384;

}  // namespace grille::kernels
