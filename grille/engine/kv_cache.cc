#include "grille/engine/kv_cache.h"

#include <array>
#include <chrono>
#include <cmath>

#include <ATen/ops/empty.h>

#include "grille/kernels/attention_paged.h"
#include "grille/tensors/allocate.h"
#include "grille/tensors/views.h"

namespace grille::engine {

std::int64_t page_bytes(const models::DecoderConfig& config, at::ScalarType dtype) {
  return 2 * formats::kPageSize * config.num_layers * config.num_kv_heads * config.head_dim *
         static_cast<std::int64_t>(c10::elementSize(dtype));
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
  const auto begin = std::chrono::steady_clock::now();
  const formats::PagedKvView view = cache_.layer(layer);
  kernels::store_kv(tensors::rows_view(key), tensors::rows_view(value), spans_, view);
  at::Tensor out = tensors::empty({query.size(0), query.size(1) * query.size(2)}, query.scalar_type());
  const float scale = 1.0f / std::sqrt(static_cast<float>(query.size(2)));
  kernels::attention_paged(tensors::rows_view(query), spans_, view, scale, tensors::matrix_view(out));
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace grille::engine
