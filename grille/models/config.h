// What a decoder-only transformer looks like, read from a config.json or from a GGUF's metadata.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "grille/base/dtype.h"
#include "grille/nn/rotary.h"

namespace grille::models {

struct DecoderConfig {
  std::string family;  // "llama", "mistral", "qwen2", "qwen3"
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_positions = 0;  // also limited by a sliding window: within it attention is the same
  double rms_norm_eps = 1e-5;
  nn::RotaryConfig rotary;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  bool query_key_norm = false;    // Qwen3: RMSNorm over head_dim of each query and key head
  DType dtype = DType::kFloat32;  // what the checkpoint says it is (torch_dtype)
};

// From a Hugging Face config.json; `file` names it in errors. Throws Error{kUnsupported} for an unknown
// architecture, rope type, activation, sliding window with overlapping layers or other feature that this
// program would have to ignore, and Error{kCorruptData} for missing, ill-typed or impossible values.
DecoderConfig parse_config(const nlohmann::json& config, const std::string& file);

}  // namespace grille::models
