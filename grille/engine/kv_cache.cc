#include "grille/engine/kv_cache.h"

#include <array>
#include <cmath>

#include <ATen/ops/empty.h>

#include "grille/base/error.h"
#include "grille/kernels/attention_paged.h"
#include "grille/tensors/allocate.h"
#include "grille/tensors/views.h"

namespace grille::engine {

PageAllocator::PageAllocator(std::int64_t num_pages) : used_(static_cast<std::size_t>(num_pages), false) {
  for (std::int64_t page = num_pages - 1; page >= 0; --page) free_.push_back(static_cast<std::int32_t>(page));
}

std::optional<std::int32_t> PageAllocator::allocate() {
  if (free_.empty()) return std::nullopt;
  const std::int32_t page = free_.back();
  free_.pop_back();
  used_[static_cast<std::size_t>(page)] = true;
  return page;
}

void PageAllocator::release(std::int32_t page) {
  check(page >= 0 && static_cast<std::size_t>(page) < used_.size() && used_[static_cast<std::size_t>(page)],
        ErrorCode::kInternal, "page allocator: page {} is not in use", page);
  used_[static_cast<std::size_t>(page)] = false;
  free_.push_back(page);
}

KvCache::KvCache(const models::DecoderConfig& config, std::int64_t num_pages, at::ScalarType dtype) {
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    const std::array<std::int64_t, 4> shape = {num_pages, config.num_kv_heads, formats::kPageSize,
                                               config.head_dim};
    keys_.push_back(at::empty(shape, dtype));
    values_.push_back(at::empty(shape, dtype));
  }
}

formats::PagedKvView KvCache::layer(std::int64_t index) const {
  const at::Tensor& keys = keys_.at(static_cast<std::size_t>(index));
  return {keys.data_ptr(),
          values_.at(static_cast<std::size_t>(index)).data_ptr(),
          tensors::dtype_of(keys),
          keys.size(0),
          keys.size(1),
          keys.size(3)};
}

at::Tensor PagedAttention::forward(std::int64_t layer, const at::Tensor& query, const at::Tensor& key,
                                   const at::Tensor& value) {
  const formats::PagedKvView view = cache_.layer(layer);
  kernels::store_kv(tensors::rows_view(key), tensors::rows_view(value), spans_, view);
  at::Tensor out = tensors::empty({query.size(0), query.size(1) * query.size(2)}, query.scalar_type());
  const float scale = 1.0f / std::sqrt(static_cast<float>(query.size(2)));
  kernels::attention_paged(tensors::rows_view(query), spans_, view, scale, tensors::matrix_view(out));
  return out;
}

}  // namespace grille::engine
