#include "grille/nn/attention.h"

#include <array>
#include <cmath>
#include <numeric>

#include <ATen/ops/cat.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "grille/base/error.h"
#include "grille/kernels/attention_paged.h"
#include "grille/tensors/allocate.h"
#include "grille/tensors/views.h"

namespace grille::nn {

SegmentAttention::SegmentAttention(const std::vector<std::int64_t>& lengths) {
  const auto pages_of = [](std::int64_t length) {
    return (length + formats::kPageSize - 1) / formats::kPageSize;
  };
  std::int64_t pages = 0;
  for (const std::int64_t length : lengths) pages += pages_of(length);
  pages_.resize(static_cast<std::size_t>(pages));
  std::iota(pages_.begin(), pages_.end(), 0);
  const std::int32_t* first = pages_.data();
  for (const std::int64_t length : lengths) {
    segments_.push_back({.pages = first, .first_row = tokens_, .start = 0, .count = length});
    first += pages_of(length);
    tokens_ += length;
  }
}

formats::PagedKvView SegmentAttention::cache(const at::Tensor& key) {
  const std::array<std::int64_t, 4> shape = {static_cast<std::int64_t>(pages_.size()), key.size(1),
                                             formats::kPageSize, key.size(2)};
  if (!keys_.defined() || keys_.sizes() != at::IntArrayRef(shape) ||
      keys_.scalar_type() != key.scalar_type()) {
    keys_ = tensors::empty(shape, key.scalar_type());
    values_ = tensors::empty(shape, key.scalar_type());
  }
  return {keys_.mutable_data_ptr(),
          values_.mutable_data_ptr(),
          tensors::dtype_of(keys_),
          shape[0],
          shape[1],
          shape[3]};
}

at::Tensor SegmentAttention::forward_by_torch(const at::Tensor& query, const at::Tensor& key,
                                              const at::Tensor& value) const {
  const std::int64_t heads = query.size(1);
  const bool grouped = heads != key.size(1);
  std::vector<at::Tensor> outputs;
  for (const formats::SequenceSpan& segment : segments_) {
    const auto part = [&](const at::Tensor& tensor) {  // [1, heads, count, head_dim]
      return tensor.narrow(0, segment.first_row, segment.count).transpose(0, 1).unsqueeze(0);
    };
    const at::Tensor out = at::scaled_dot_product_attention(
        part(query), part(key), part(value), /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true,
        /*scale=*/{}, /*enable_gqa=*/grouped);
    outputs.push_back(out.squeeze(0).transpose(0, 1).reshape({segment.count, heads * query.size(2)}));
  }
  return outputs.size() == 1 ? outputs.front() : at::cat(outputs, 0);
}

at::Tensor SegmentAttention::forward(std::int64_t, const at::Tensor& query, const at::Tensor& key,
                                     const at::Tensor& value) {
  check(tokens_ == query.size(0), ErrorCode::kInternal, "attention: segments cover {} of {} tokens", tokens_,
        query.size(0));
  if (!query.device().is_cpu()) return forward_by_torch(query, key, value);
  const formats::PagedKvView kv = cache(key);
  kernels::store_kv(tensors::rows_view(key), tensors::rows_view(value), segments_, kv);
  at::Tensor out = tensors::empty({query.size(0), query.size(1) * query.size(2)}, query.scalar_type());
  const float scale = 1.0f / std::sqrt(static_cast<float>(query.size(2)));
  kernels::attention_paged(tensors::rows_view(query), segments_, kv, scale, tensors::matrix_view(out));
  return out;
}

}  // namespace grille::nn
