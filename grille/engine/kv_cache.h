// The memory of the paged key/value cache, and attention over it.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grille/formats/paged_kv.h"
#include "grille/models/config.h"
#include "grille/nn/attention.h"

namespace grille::engine {

// Keys and values of one page in all layers.
std::int64_t page_bytes(const models::DecoderConfig& config, at::ScalarType dtype);

class KvCache {
 public:
  // Memory: num_pages * page_bytes(), committed as it is used.
  KvCache(const models::DecoderConfig& config, std::int64_t num_pages, at::ScalarType dtype);
  formats::PagedKvView layer(std::int64_t index) const;

 private:
  std::vector<at::Tensor> keys_;  // one a layer: [num_pages, num_kv_heads, kPageSize, head_dim]
  std::vector<at::Tensor> values_;
};

// Attention over the cache for the sequences of one step: stores the step's keys and values, then attends.
class PagedAttention final : public nn::Attention {
 public:
  PagedAttention(KvCache& cache, std::vector<formats::SequenceSpan> spans)
      : cache_(cache), spans_(std::move(spans)) {}
  at::Tensor forward(std::int64_t layer, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value) override;
  double seconds() const { return seconds_; }  // spent here so far

 private:
  KvCache& cache_;
  std::vector<formats::SequenceSpan> spans_;
  double seconds_ = 0.0;
};

}  // namespace grille::engine
