// Attention over the paged key/value cache.
#pragma once

#include <span>

#include "grille/base/matrix_view.h"
#include "grille/formats/paged_kv.h"

namespace grille::kernels {

constexpr std::int64_t kMaxHeadDim = 256;

// Writes the keys and values of the sequences' new tokens to their pages.
// key, value: [tokens, num_kv_heads * head_dim] float32, bfloat16 or float16, rounded to the cache's dtype.
// Errors as below.
void store_kv(const ConstMatrixView& key, const ConstMatrixView& value,
              std::span<const formats::SequenceSpan> sequences, const formats::PagedKvView& kv);

// For every sequence, every head and every query position p in [start, start + count):
//   out = sum over positions j <= p of softmax(scale * q . k_j) v_j,
// in fp32. The keys and values of all positions up to start + count are in the cache. Query head h reads kv
// head h / (heads / num_kv_heads).
// query, out: [tokens, heads * head_dim] float32, bfloat16 or float16; out may be query. head_dim <= 256.
// The result does not depend on the number of threads, nor on the other sequences.
// Throws Error{kInvalidArgument} on mismatched shapes, rows or pages out of range. O(threads) scratch, plus
// partial results for a long context with few queries: kept for the next call.
void attention_paged(const ConstMatrixView& query, std::span<const formats::SequenceSpan> sequences,
                     const formats::PagedKvView& kv, float scale, const MatrixView& out);

}  // namespace grille::kernels
