// For tests: a random two-layer Llama in memory; nothing is read from a file.
#pragma once

#include <memory>
#include <utility>

#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include "grille/models/decoder.h"

namespace grille::models {

inline Decoder tiny_decoder(std::int64_t max_positions = 64) {
  DecoderConfig config;
  config.family = "llama";
  config.vocab_size = 50;
  config.hidden_size = 32;
  config.intermediate_size = 40;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.max_positions = max_positions;
  config.rotary.head_dim = 8;
  Decoder decoder(config, at::kFloat);
  decoder.embedding = tensors::dense_weight(at::randn({50, 32}));
  decoder.norm = at::ones({32});
  decoder.head = std::make_unique<nn::WeightLinear>(decoder.embedding);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    DecoderLayer layer;
    layer.input_norm = at::ones({32});
    layer.post_attention_norm = at::ones({32});
    for (const Slot slot : kSlots) {
      const auto [rows, cols] = slot_shape(config, slot);
      layer.linears[static_cast<std::size_t>(slot)] =
          std::make_unique<nn::WeightLinear>(tensors::dense_weight(at::randn({rows, cols}).mul(0.3)));
    }
    decoder.layers.push_back(std::move(layer));
  }
  return decoder;
}

}  // namespace grille::models
