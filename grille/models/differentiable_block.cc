#include "grille/models/differentiable_block.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>

namespace grille::models {
namespace {

at::Tensor copy_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true) : tensor;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return x.mul(x.square().mean(-1, /*keepdim=*/true).add(eps).rsqrt()).mul(weight);
}

// x [tokens, heads, head_dim], pairs (i, i + head_dim / 2).
at::Tensor rotated(const at::Tensor& x, const nn::RotaryStep& rotary) {
  const std::int64_t half = x.size(2) / 2;
  const at::Tensor cos = rotary.cos.unsqueeze(1);
  const at::Tensor sin = rotary.sin.unsqueeze(1);
  const at::Tensor first = x.narrow(2, 0, half);
  const at::Tensor second = x.narrow(2, half, half);
  return at::cat({first.mul(cos).sub(second.mul(sin)), second.mul(cos).add(first.mul(sin))}, 2);
}

// Each key and value head for all of its query heads: torch then sums their gradients in a fixed order.
at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const std::vector<std::int64_t>& lengths) {
  const std::int64_t shared = query.size(1) / key.size(1);
  std::vector<at::Tensor> outputs;
  std::int64_t first = 0;
  for (const std::int64_t length : lengths) {
    const auto part = [&](const at::Tensor& tensor) {  // [1, heads, length, head_dim]
      const at::Tensor rows = tensor.narrow(0, first, length);
      return (tensor.size(1) == query.size(1) ? rows : rows.repeat_interleave(shared, 1))
          .transpose(0, 1)
          .unsqueeze(0);
    };
    const at::Tensor out = at::scaled_dot_product_attention(part(query), part(key), part(value),
                                                            /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                                            /*is_causal=*/true);
    outputs.push_back(out.squeeze(0).transpose(0, 1).reshape({length, query.size(1) * query.size(2)}));
    first += length;
  }
  return at::cat(outputs, 0);
}

}  // namespace

DifferentiableBlock::DifferentiableBlock(const DecoderLayer& layer)
    : input_norm(copy_of(layer.input_norm)),
      post_attention_norm(copy_of(layer.post_attention_norm)),
      query_norm(copy_of(layer.query_norm)),
      key_norm(copy_of(layer.key_norm)) {
  for (const Slot slot : kSlots) {
    const auto& linear = static_cast<const nn::WeightLinear&>(layer.linear(slot));
    const std::size_t place = static_cast<std::size_t>(slot);
    weights[place] = copy_of(tensors::to_dense_float(linear.weight()));
    biases[place] = copy_of(linear.bias());
  }
}

at::Tensor DifferentiableBlock::linear(const at::Tensor& x, Slot slot) const {
  const std::size_t place = static_cast<std::size_t>(slot);
  return at::linear(x, weights[place], biases[place]);
}

at::Tensor DifferentiableBlock::forward(const at::Tensor& hidden, const nn::RotaryStep& rotary,
                                        const DecoderConfig& config,
                                        const std::vector<std::int64_t>& lengths) const {
  const double eps = config.rms_norm_eps;
  const at::Tensor normed = rms_norm(hidden, input_norm, eps);
  const auto heads = [&](Slot slot, std::int64_t count) {
    return linear(normed, slot).view({hidden.size(0), count, config.head_dim});
  };
  at::Tensor query = heads(Slot::kQuery, config.num_heads);
  at::Tensor key = heads(Slot::kKey, config.num_kv_heads);
  if (query_norm.defined()) {
    query = rms_norm(query, query_norm, eps);
    key = rms_norm(key, key_norm, eps);
  }
  const at::Tensor attended =
      attend(rotated(query, rotary), rotated(key, rotary), heads(Slot::kValue, config.num_kv_heads), lengths);
  const at::Tensor residual = hidden.add(linear(attended, Slot::kOutput));
  const at::Tensor inputs = rms_norm(residual, post_attention_norm, eps);
  const at::Tensor gated = at::silu(linear(inputs, Slot::kGate)).mul(linear(inputs, Slot::kUp));
  return residual.add(linear(gated, Slot::kDown));
}

}  // namespace grille::models
