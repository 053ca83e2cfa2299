// The decoder block in torch's own operations, so that torch can differentiate it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grille/models/decoder.h"

namespace grille::models {

// Everything of a block that its forward reads, in float32; copies, so that torch may keep them for
// gradients.
struct DifferentiableBlock {
  std::array<at::Tensor, kNumSlots> weights;  // [out_features, in_features]
  std::array<at::Tensor, kNumSlots> biases;   // [out_features], or undefined
  at::Tensor input_norm, post_attention_norm, query_norm, key_norm;

  // `layer` has WeightLinear in every slot. Called outside of c10::InferenceMode when gradients are wanted.
  explicit DifferentiableBlock(const DecoderLayer& layer);

  // As DecoderLayer::forward on the CPU with a SegmentAttention of `lengths`, up to the rounding of float32.
  // hidden float32 [tokens, hidden]. Memory with gradients: some 12 hidden + 4 intermediate values a token.
  at::Tensor forward(const at::Tensor& hidden, const nn::RotaryStep& rotary, const DecoderConfig& config,
                     const std::vector<std::int64_t>& lengths) const;

 private:
  at::Tensor linear(const at::Tensor& x, Slot slot) const;
};

}  // namespace grille::models
