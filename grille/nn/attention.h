// How a model's forward reaches attention: the same forward runs over whole sequences (evaluation,
// pruning, training) and over a paged cache (the engine).
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grille/formats/paged_kv.h"

namespace grille::nn {

class Attention {
 public:
  virtual ~Attention() = default;
  // Causal attention of one layer, softmax(q k^T / sqrt(head_dim)) v, with rotary embedding applied already.
  //   query [tokens, num_heads, head_dim]; key, value [tokens, num_kv_heads, head_dim]
  //   returns [tokens, num_heads * head_dim] in query's dtype
  virtual at::Tensor forward(std::int64_t layer, const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value) = 0;
};

// Every token attends to the earlier ones of its own segment; segments follow each other in the rows. On the
// CPU by kernels::attention_paged(), on other devices by torch.
class SegmentAttention final : public Attention {
 public:
  // Lengths of the segments (documents); they add up to the number of tokens.
  explicit SegmentAttention(const std::vector<std::int64_t>& lengths);
  SegmentAttention(const SegmentAttention&) = delete;
  SegmentAttention& operator=(const SegmentAttention&) = delete;
  // On the CPU head_dim is at most kernels::kMaxHeadDim.
  at::Tensor forward(std::int64_t layer, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value) override;

 private:
  at::Tensor forward_by_torch(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) const;
  // A cache of one layer, for the tokens of one call. It is kept, since layers follow each other.
  formats::PagedKvView cache(const at::Tensor& key);

  std::int64_t tokens_ = 0;
  std::vector<std::int32_t> pages_;
  std::vector<formats::SequenceSpan> segments_;
  at::Tensor keys_, values_;
};

}  // namespace grille::nn
