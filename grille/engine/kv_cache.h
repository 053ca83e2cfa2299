// The paged key/value cache: pages of 16 tokens, handed out one by one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grille/formats/paged_kv.h"
#include "grille/models/config.h"
#include "grille/nn/attention.h"

namespace grille::engine {

class PageAllocator {
 public:
  explicit PageAllocator(std::int64_t num_pages);
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }
  // Lowest-numbered free page first after a fresh start; empty when none is left.
  std::optional<std::int32_t> allocate();
  void release(std::int32_t page);

 private:
  std::vector<std::int32_t> free_;
  std::vector<bool> used_;
};

class KvCache {
 public:
  // Memory: num_pages * 16 * 2 * num_layers * num_kv_heads * head_dim elements, committed as it is used.
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

 private:
  KvCache& cache_;
  std::vector<formats::SequenceSpan> spans_;
};

}  // namespace grille::engine
