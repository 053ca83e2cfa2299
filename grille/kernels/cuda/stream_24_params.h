// What the streaming 2:4 kernel is told.
#pragma once

#include <cstdint>

#include "grille/kernels/cuda/stream_24_layout.h"

namespace grille::kernels {

enum class StreamOutput : std::uint8_t { kFloat32, kBFloat16, kFloat16 };

struct Stream24Params {
  const std::uint8_t* slabs;
  const float* x_scale;       // or null
  const float* weight_scale;  // or null
  const float* bias;          // or null
  const void* residual;       // or null
  void* y;
  std::int64_t residual_stride, y_stride;  // in elements
  std::uint32_t* counters;
  void* partials;
  int token_begin, tokens;  // of all tokens, those of this launch
  int rows;                 // of the weight
  int row_blocks, k_tiles;
  int group_rows;  // row blocks that a cluster works on at a time: 1, 2 or 4
  int splits;      // blocks of a cluster that split the k-tiles of a row block: 1, 2, 4 or 8
  int clusters, stages;
  int x_slots;                        // k-tiles of x in shared memory
  bool resident_x;                    // every row block needs the same ones: they stay
  int slabs_per_cluster, slabs_left;  // of row groups * k_tiles / clusters
  int exchange_at, token_scales_at;   // Stream24Memory
  StreamOutput output;
  bool vector_output;  // four neighbouring outputs (and residuals) can be moved at once
};

}  // namespace grille::kernels
