// The paged key/value cache as kernels see it.
#pragma once

#include <cstdint>

#include "grille/base/dtype.h"

namespace grille::formats {

constexpr std::int64_t kPageSize = 16;  // tokens a page

// Keys and values of one layer: [num_pages, num_kv_heads, kPageSize, head_dim] each, so that one head's
// page is contiguous.
struct PagedKvView {
  void* keys = nullptr;
  void* values = nullptr;
  DType dtype = DType::kBFloat16;  // float32, bfloat16 or float16
  std::int64_t num_pages = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;

  // Element offset of (page, head, slot, 0).
  std::int64_t offset(std::int64_t page, std::int64_t head, std::int64_t slot) const {
    return ((page * num_kv_heads + head) * kPageSize + slot) * head_dim;
  }
};

// Tokens of one sequence in a step: queries at positions [start, start + count) whose keys and values are
// in the cache; token t lives in page pages[t / kPageSize], slot t % kPageSize.
struct SequenceSpan {
  const std::int32_t* pages = nullptr;
  std::int64_t first_row = 0;  // row of the step's token matrices that holds position `start`
  std::int64_t start = 0;
  std::int64_t count = 0;
};

}  // namespace grille::formats
