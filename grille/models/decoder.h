// The decoder-only transformer of the Llama family (Llama, Mistral, Qwen2, Qwen3), written once against
// Linear (any weight format) and Attention (whole sequences or a paged cache).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grille/models/config.h"
#include "grille/nn/attention.h"
#include "grille/nn/linear.h"
#include "grille/nn/rotary.h"
#include "grille/tensors/weight.h"

namespace grille::models {

// The linear layers of one block, in the order in which they run.
enum class Slot { kQuery, kKey, kValue, kOutput, kGate, kUp, kDown };
constexpr std::size_t kNumSlots = 7;
constexpr std::array<Slot, kNumSlots> kSlots = {Slot::kQuery, Slot::kKey, Slot::kValue, Slot::kOutput,
                                                Slot::kGate,  Slot::kUp,  Slot::kDown};

// Layers that read the same input: {q, k, v}, {o}, {gate, up}, {down}.
const std::vector<std::vector<Slot>>& shared_inputs();

// "self_attn.q_proj", ... as in Hugging Face checkpoints.
const char* slot_name(Slot slot);
// [out_features, in_features].
std::array<std::int64_t, 2> slot_shape(const DecoderConfig& config, Slot slot);
bool slot_has_bias(const DecoderConfig& config, Slot slot);
// "model.layers.3.self_attn.q_proj"
std::string module_name(std::int64_t layer, Slot slot);

class DecoderLayer {
 public:
  at::Tensor input_norm;           // float32 [hidden]
  at::Tensor post_attention_norm;  // float32 [hidden]
  at::Tensor query_norm;           // float32 [head_dim], or undefined
  at::Tensor key_norm;
  std::array<std::unique_ptr<nn::Linear>, kNumSlots> linears;

  nn::Linear& linear(Slot slot) const { return *linears[static_cast<std::size_t>(slot)]; }

  // hidden [tokens, hidden] -> [tokens, hidden]; `index` is the layer's number, for the attention's cache.
  at::Tensor forward(const at::Tensor& hidden, const nn::RotaryStep& rotary, const DecoderConfig& config,
                     std::int64_t index, nn::Attention& attention) const;
};

class Decoder {
 public:
  Decoder(DecoderConfig config, at::ScalarType compute_dtype)
      : config_(std::move(config)), compute_dtype_(compute_dtype), rotary_(config_.rotary) {}

  const DecoderConfig& config() const { return config_; }
  at::ScalarType compute_dtype() const { return compute_dtype_; }
  const nn::RotaryTable& rotary() const { return rotary_; }
  // Where its weights are, and its results.
  at::Device device() const { return norm.device(); }

  // Rows of the embedding in the compute dtype, [ids, hidden]. Throws Error{kInvalidArgument} for an id
  // outside the vocabulary.
  at::Tensor embed(const std::vector<std::int32_t>& ids) const;

  // All blocks: [tokens, hidden], before the final norm.
  at::Tensor forward(const std::vector<std::int32_t>& ids, const std::vector<std::int64_t>& positions,
                     nn::Attention& attention) const;

  // Final norm and head: hidden [rows, hidden] -> float32 [rows, vocab].
  at::Tensor logits(const at::Tensor& hidden) const;

  // Filled by load_decoder().
  tensors::Weight embedding;
  at::Tensor norm;                   // float32 [hidden]
  std::unique_ptr<nn::Linear> head;  // shares the embedding's data when tied
  std::vector<DecoderLayer> layers;

 private:
  DecoderConfig config_;
  at::ScalarType compute_dtype_;
  nn::RotaryTable rotary_;
};

}  // namespace grille::models
