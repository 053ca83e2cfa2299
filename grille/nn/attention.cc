#include "grille/nn/attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "grille/base/error.h"

namespace grille::nn {
namespace {

// [tokens, heads, head_dim] -> [1, heads * groups, tokens, head_dim], each head repeated `groups` times
// (grouped-query attention), without a copy.
at::Tensor heads_first(const at::Tensor& x, std::int64_t groups) {
  at::Tensor heads = x.permute({1, 0, 2});
  if (groups > 1) {
    heads =
        heads.unsqueeze(1).expand({-1, groups, -1, -1}).reshape({x.size(1) * groups, x.size(0), x.size(2)});
  }
  return heads.unsqueeze(0);
}

}  // namespace

at::Tensor SegmentAttention::forward(std::int64_t, const at::Tensor& query, const at::Tensor& key,
                                     const at::Tensor& value) {
  const std::int64_t groups = query.size(1) / key.size(1);
  std::vector<at::Tensor> outputs;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths_) {
    const at::Tensor out = at::scaled_dot_product_attention(
        heads_first(query.narrow(0, begin, length), 1), heads_first(key.narrow(0, begin, length), groups),
        heads_first(value.narrow(0, begin, length), groups), /*attn_mask=*/{}, /*dropout_p=*/0.0,
        /*is_causal=*/true);
    outputs.push_back(out.squeeze(0).permute({1, 0, 2}).reshape({length, -1}));
    begin += length;
  }
  check(begin == query.size(0), ErrorCode::kInternal, "attention: segments cover {} of {} tokens", begin,
        query.size(0));
  return outputs.size() == 1 ? outputs.front() : at::cat(outputs);
}

}  // namespace grille::nn
