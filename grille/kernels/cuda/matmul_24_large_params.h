// What the large-batch 2:4 kernels are launched with, and what their launcher knows of them.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>

namespace grille::kernels {

enum class LargeOutput : int { kBFloat16, kFloat16, kFloat32 };

struct LargeParams {
  CUtensorMap x_map;  // bytes [m, k], boxes of [token_tile / 2, 128], 128-byte swizzle, zeros outside
  CUtensorMap y_map;  // bytes [m, 2 n], boxes of [64, 128] (swiglu [m, n], [64, 64]), swizzled; if y_by_map
  const std::uint8_t* slabs;               // [row_blocks, k_tiles]: see formats/two_four_sm90.h
  const float* x_scale;                    // [m] or null
  const float* weight_scale;               // [n] or null
  const float* bias;                       // [n] or null
  const void* residual;                    // [m, n] of y's type or null
  void* y;                                 // [m, n], with swiglu [m, n / 2]
  std::int64_t residual_stride, y_stride;  // in elements
  int m, n;
  int k_tiles, row_blocks;
  int row_groups, token_tiles;  // tiles of a cluster along n, and tiles along m
  int band;                     // token tiles that are walked together, so that L2 holds their x
  int split_tiles;              // of a cluster: the first ones, whose k is shared by clusters
  std::uint32_t* flags;         // [blocks, 2], zero
  void* partials;               // [blocks, row_tile * token_tile] fp32 or int32
  LargeOutput output;
  bool swiglu;          // rows 2 i and 2 i + 1 are gate and up of feature i
  bool y_by_map;        // bfloat16 or float16, aligned
  bool y_by_16;         // rows of y begin at multiples of 16 bytes
  bool residual_by_16;  // those of the residual do, and n is a multiple of 8
};

constexpr int kLargeClusterRows = 2;  // blocks of a cluster that share x
constexpr int kLargeThreads = 384;    // two consumer warpgroups and a producer warpgroup

// One instance.
struct LargeKernel {
  const void* function = nullptr;
  int row_tile = 0;
  int token_tile = 0;
  bool splits = false;  // whether split_tiles may be more than 0
  bool promote = false;
  int shared_bytes = 0;
};

// The instances of a type; one .cu file each.
std::span<const LargeKernel> large_24_kernels_float8();
std::span<const LargeKernel> large_24_kernels_int8();
std::span<const LargeKernel> large_24_kernels_bfloat16();
std::span<const LargeKernel> large_24_kernels_float16();

}  // namespace grille::kernels
