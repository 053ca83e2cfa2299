// Rotary position embedding.
#pragma once

#include <cstdint>

#include "grille/base/device.h"
#include "grille/base/matrix_view.h"

namespace grille::kernels {

// Rotates, in place and in fp32, the pairs (i, i + head_dim / 2) of every head by the angles of its row's
// position, as Hugging Face's Llama does ("rotate half"; arXiv 2104.09864).
// x: [tokens, heads * head_dim] float32, bfloat16 or float16; head_dim even. cos, sin: [tokens, head_dim /
// 2], row t for row t of x. On a CUDA stream all lie on its device, and the call only enqueues.
// Throws Error{kInvalidArgument} on mismatch.
void rope(const MatrixView& x, std::int64_t head_dim, const float* cos, const float* sin,
          const Stream& stream = {});

}  // namespace grille::kernels
