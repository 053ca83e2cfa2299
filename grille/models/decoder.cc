#include "grille/models/decoder.h"

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/nn/ops.h"
#include "grille/tensors/allocate.h"

namespace grille::models {

const std::vector<std::vector<Slot>>& shared_inputs() {
  static const std::vector<std::vector<Slot>> groups = {
      {Slot::kQuery, Slot::kKey, Slot::kValue}, {Slot::kOutput}, {Slot::kGate, Slot::kUp}, {Slot::kDown}};
  return groups;
}

const char* slot_name(Slot slot) {
  switch (slot) {
    case Slot::kQuery: return "self_attn.q_proj";
    case Slot::kKey: return "self_attn.k_proj";
    case Slot::kValue: return "self_attn.v_proj";
    case Slot::kOutput: return "self_attn.o_proj";
    case Slot::kGate: return "mlp.gate_proj";
    case Slot::kUp: return "mlp.up_proj";
    case Slot::kDown: return "mlp.down_proj";
  }
  return "";
}

std::array<std::int64_t, 2> slot_shape(const DecoderConfig& config, Slot slot) {
  const std::int64_t query = config.num_heads * config.head_dim;
  const std::int64_t key = config.num_kv_heads * config.head_dim;
  switch (slot) {
    case Slot::kQuery: return {query, config.hidden_size};
    case Slot::kKey:
    case Slot::kValue: return {key, config.hidden_size};
    case Slot::kOutput: return {config.hidden_size, query};
    case Slot::kGate:
    case Slot::kUp: return {config.intermediate_size, config.hidden_size};
    case Slot::kDown: return {config.hidden_size, config.intermediate_size};
  }
  return {0, 0};
}

bool slot_has_bias(const DecoderConfig& config, Slot slot) {
  switch (slot) {
    case Slot::kQuery:
    case Slot::kKey:
    case Slot::kValue: return config.qkv_bias;
    case Slot::kOutput: return config.output_bias;
    default: return config.mlp_bias;
  }
}

std::string module_name(std::int64_t layer, Slot slot) {
  return fmt::format("model.layers.{}.{}", layer, slot_name(slot));
}

at::Tensor DecoderLayer::forward(const at::Tensor& hidden, const nn::RotaryStep& rotary,
                                 const DecoderConfig& config, std::int64_t index,
                                 nn::Attention& attention) const {
  const std::int64_t tokens = hidden.size(0);
  const double eps = config.rms_norm_eps;

  const std::array<const nn::Linear*, 3> qkv = {&linear(Slot::kQuery), &linear(Slot::kKey),
                                                &linear(Slot::kValue)};
  std::vector<at::Tensor> projected = nn::forward_shared(nn::rms_norm(hidden, input_norm, eps), qkv);
  at::Tensor query = projected[0].view({tokens, config.num_heads, config.head_dim});
  at::Tensor key = projected[1].view({tokens, config.num_kv_heads, config.head_dim});
  const at::Tensor value = projected[2].view({tokens, config.num_kv_heads, config.head_dim});
  if (query_norm.defined()) {
    query = nn::rms_norm(query, query_norm, eps);
    key = nn::rms_norm(key, key_norm, eps);
  }
  nn::apply_rotary(query, rotary);
  nn::apply_rotary(key, rotary);

  at::Tensor residual = tensors::copy(hidden);
  linear(Slot::kOutput).forward_add(attention.forward(index, query, key, value), residual);

  const at::Tensor normed = nn::rms_norm(residual, post_attention_norm, eps);
  linear(Slot::kDown).forward_add(nn::swiglu(normed, linear(Slot::kGate), linear(Slot::kUp)), residual);
  return residual;
}

at::Tensor Decoder::embed(const std::vector<std::int32_t>& ids) const {
  return tensors::gather_rows(embedding, ids, compute_dtype_);
}

at::Tensor Decoder::forward(const std::vector<std::int32_t>& ids, const std::vector<std::int64_t>& positions,
                            nn::Attention& attention) const {
  at::Tensor hidden = embed(ids);
  const nn::RotaryStep step = rotary_.at_positions(positions).to(device());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    throw_if_interrupted();
    hidden = layers[i].forward(hidden, step, config_, static_cast<std::int64_t>(i), attention);
  }
  return hidden;
}

at::Tensor Decoder::logits(const at::Tensor& hidden) const {
  return head->forward_as(nn::rms_norm(hidden, norm, config_.rms_norm_eps), at::kFloat);
}

}  // namespace grille::models
