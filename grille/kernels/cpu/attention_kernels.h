// What each instruction set provides for attention_paged, which validates, plans and splits the work.
#pragma once

#include <cstdint>

#include "grille/base/cpu_features.h"
#include "grille/base/matrix_view.h"
#include "grille/formats/paged_kv.h"

namespace grille::kernels {

// Query positions [position, position + positions) of all `group` query heads of one kv head, against the
// keys [key_begin, key_end), masked causally.
struct AttentionTask {
  const formats::SequenceSpan* sequence = nullptr;
  std::int64_t kv_head = 0;
  std::int64_t position = 0;
  std::int64_t positions = 0;
  std::int64_t key_begin = 0;
  std::int64_t key_end = 0;
  // Null: `out` gets the result. Otherwise this gets it in part, per row (position-major, then head of the
  // group): the largest score, the sum of exponentials, and head_dim unnormalised sums.
  float* partial = nullptr;
};

struct AttentionJob {
  ConstMatrixView query;
  MatrixView out;
  formats::PagedKvView kv;
  std::int64_t group = 1;  // query heads a kv head
  float scale = 1.0f;
};

struct AttentionKernels {
  void (*attend)(const AttentionJob& job, const AttentionTask& task);
  // Puts `parts` partial results of consecutive key ranges, `stride` floats apart, together.
  void (*combine)(const AttentionJob& job, const AttentionTask& task, const float* partials,
                  std::int64_t parts, std::int64_t stride);
};

const AttentionKernels& attention_kernels_scalar();
const AttentionKernels& attention_kernels_avx2();
const AttentionKernels& attention_kernels_avx512();

}  // namespace grille::kernels
