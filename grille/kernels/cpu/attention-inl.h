// Paged causal attention with online softmax (arXiv 2205.14135), once for all instruction sets. After
// exp-inl.h, partial-inl.h and gemm-inl.h, inside their region.
//
// A task is a block of rows (query positions x the query heads of one kv head) against a range of keys, in
// blocks of kKeyBlock. With many rows, keys are transposed and widened once a block and both products are
// small matrix products. With few (decode), pages are read where they lie.
#pragma once

namespace grille::kernels {
namespace {

constexpr std::int64_t kKeyBlock = 64;  // whole pages
constexpr std::int64_t kFewRows = 8;

inline std::int64_t whole_vectors(std::int64_t count) {
  return (count + Simd::kLanes - 1) / Simd::kLanes * Simd::kLanes;
}

template <typename K>
class BlockAttention {
 public:
  BlockAttention(const AttentionJob& job, const AttentionTask& task)
      : job_(job),
        task_(task),
        rows_(task.positions * job.group),
        dim_(job.kv.head_dim),
        padded_(whole_vectors(dim_)) {
    thread_local Scratch scratch;
    const std::int64_t row_floats = 2 * padded_ + kKeyBlock + 2;
    const std::int64_t packed_floats = 2 * kKeyBlock * padded_;
    float* memory = scratch.get_as<float>(static_cast<std::size_t>(rows_ * row_floats + packed_floats + 64));
    query_ = memory;
    sums_ = query_ + rows_ * padded_;
    scores_ = sums_ + rows_ * padded_;
    keys_ = scores_ + rows_ * kKeyBlock;
    values_ = keys_ + kKeyBlock * padded_;
    largest_ = values_ + kKeyBlock * padded_;
    weight_ = largest_ + rows_;
  }

  void run() {
    load_query();
    std::fill(sums_, sums_ + rows_ * padded_, 0.0f);
    std::fill(largest_, largest_ + rows_, -std::numeric_limits<float>::infinity());
    std::fill(weight_, weight_ + rows_, 0.0f);
    for (std::int64_t key = task_.key_begin; key < task_.key_end; key += kKeyBlock) {
      const std::int64_t count = std::min(kKeyBlock, task_.key_end - key);
      if (rows_ <= kFewRows) {
        score_pages(key, count);
      } else {
        score_block(key, count);
      }
      for (std::int64_t row = 0; row < rows_; ++row) soften(row, key, count);
      if (rows_ <= kFewRows && padded_ == dim_) {
        add_pages(key, count);
      } else {
        add_block(key, count);
      }
    }
    task_.partial != nullptr ? store_partial() : store_out();
  }

 private:
  std::int64_t position_of(std::int64_t row) const { return task_.position + row / job_.group; }

  // Offset of the row's head in its row of the query and output matrices, which is `token`.
  std::int64_t element_of(std::int64_t row, std::int64_t* token) const {
    *token = task_.sequence->first_row + position_of(row) - task_.sequence->start;
    return (task_.kv_head * job_.group + row % job_.group) * dim_;
  }

  const K* slot(const void* base, std::int64_t key) const {
    const std::int64_t page = task_.sequence->pages[key / formats::kPageSize];
    return static_cast<const K*>(base) + job_.kv.offset(page, task_.kv_head, key % formats::kPageSize);
  }

  void load_query() {
    std::fill(query_, query_ + rows_ * padded_, 0.0f);
    const Simd::Vec scale = Simd::set1(job_.scale);
    with_float_type(job_.query.dtype, [&](auto type) {
      for (std::int64_t row = 0; row < rows_; ++row) {
        std::int64_t token = 0;
        const std::int64_t at = element_of(row, &token);
        const auto* q = reinterpret_cast<const decltype(type)*>(job_.query.row(token)) + at;
        float* out = query_ + row * padded_;
        for_each_vector(dim_, [&](auto load, auto store) { store(out, Simd::mul(load(q), scale)); });
      }
    });
  }

  // Asks for `count` keys' slots of a page, which are read next: pages are too short for the hardware to
  // follow.
  void ask_for(const void* base, std::int64_t key, std::int64_t count) const {
    constexpr std::int64_t kLine = 64;
    const auto* data = reinterpret_cast<const std::byte*>(slot(base, key));
    const std::int64_t bytes = count * dim_ * static_cast<std::int64_t>(sizeof(K));
    for (std::int64_t at = 0; at < bytes; at += kLine) Simd::prefetch_far(data + at);
  }

  // scores = query . key, four keys of a page at a time.
  void score_pages(std::int64_t key, std::int64_t count) {
    for (std::int64_t j = 0; j < count; j += 4) {
      ask_for(job_.kv.values, key + j, 4);
      const K* k = slot(job_.kv.keys, key + j);  // slots of a page follow each other, also unused ones
      std::int64_t row = 0;
      for (; row + 3 <= rows_; row += 3) score_tile<3>(k, row, j);
      for (; row < rows_; ++row) score_tile<1>(k, row, j);
    }
  }

  template <int kRows>
  void score_tile(const K* k, std::int64_t row, std::int64_t j) {
    Simd::Vec acc[kRows][4] = {};
    for_each_vector(dim_, [&](auto load, auto) {
      for (int s = 0; s < 4; ++s) {
        const Simd::Vec kv = load(k + s * dim_);
        for (int r = 0; r < kRows; ++r)
          acc[r][s] = Simd::fma(kv, load(query_ + (row + r) * padded_), acc[r][s]);
      }
    });
    for (int r = 0; r < kRows; ++r) {
      Simd::sum4(acc[r][0], acc[r][1], acc[r][2], acc[r][3], scores_ + (row + r) * kKeyBlock + j);
    }
  }

  // The same through a transposed copy of the keys [padded_, kKeyBlock].
  void score_block(std::int64_t key, std::int64_t count) {
    for (std::int64_t j = 0; j < whole_vectors(count); j += Simd::kLanes) {
      for (std::int64_t d = 0; d < dim_; d += Simd::kLanes) {
        Simd::Vec tile[Simd::kLanes];
        const std::int64_t left = dim_ - d;
        for (int i = 0; i < Simd::kLanes; ++i) {
          if (j + i >= count) {
            tile[i] = Simd::zero();
            continue;
          }
          const K* k = slot(job_.kv.keys, key + j + i) + d;
          tile[i] = left >= Simd::kLanes ? Simd::load(k) : load_first(k, left);
        }
        Simd::transpose(tile);
        for (int i = 0; i < Simd::kLanes; ++i) Simd::store(keys_ + (d + i) * kKeyBlock + j, tile[i]);
      }
    }
    gemm(SmallGemm<float>{query_, padded_, keys_, kKeyBlock, scores_, kKeyBlock, rows_, whole_vectors(count),
                          dim_, false});
  }

  // Scores of a row -> exponentials, with the row's running maximum and sum.
  void soften(std::int64_t row, std::int64_t key, std::int64_t count) {
    float* scores = scores_ + row * kKeyBlock;
    const std::int64_t visible = std::clamp<std::int64_t>(position_of(row) + 1 - key, 0, count);
    if (visible == 0) {
      std::fill(scores, scores + count, 0.0f);
      return;
    }
    const std::int64_t end = whole_vectors(visible);
    std::fill(scores + visible, scores + std::max(end, count), -std::numeric_limits<float>::infinity());
    Simd::Vec top = Simd::set1(largest_[row]);
    for (std::int64_t j = 0; j < end; j += Simd::kLanes) top = Simd::max(top, Simd::load(scores + j));
    const float largest = Simd::largest(top);
    const Simd::Vec shift = Simd::set1(largest);
    for (std::int64_t j = 0; j < end; j += Simd::kLanes) {
      Simd::store(scores + j, exp(Simd::sub(Simd::load(scores + j), shift)));
    }
    std::fill(scores + visible, scores + std::max(end, count), 0.0f);
    Simd::Vec sum = Simd::zero();
    for (std::int64_t j = 0; j < end; j += Simd::kLanes) sum = Simd::add(sum, Simd::load(scores + j));
    if (largest > largest_[row]) {
      const float decay = weight_[row] == 0.0f ? 0.0f : std::exp(largest_[row] - largest);
      weight_[row] *= decay;
      rescale(sums_ + row * padded_, decay);
      largest_[row] = largest;
    }
    weight_[row] += Simd::sum(sum);
  }

  void rescale(float* sums, float factor) const {
    const Simd::Vec f = Simd::set1(factor);
    for (std::int64_t d = 0; d < padded_; d += Simd::kLanes)
      Simd::store(sums + d, Simd::mul(f, Simd::load(sums + d)));
  }

  // sums += exponentials x values, page by page.
  void add_pages(std::int64_t key, std::int64_t count) {
    for (std::int64_t j = 0; j < count; j += formats::kPageSize) {
      if (key + j + kKeyBlock < task_.key_end) {
        ask_for(job_.kv.keys, key + j + kKeyBlock, formats::kPageSize);
      }
      gemm(SmallGemm<K>{scores_ + j, kKeyBlock, slot(job_.kv.values, key + j), dim_, sums_, padded_, rows_,
                        dim_, std::min(formats::kPageSize, count - j), true});
    }
  }

  // The same through a widened copy of the values [kKeyBlock, padded_].
  void add_block(std::int64_t key, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j) {
      const K* v = slot(job_.kv.values, key + j);
      float* out = values_ + j * padded_;
      if (padded_ != dim_) std::fill(out + dim_, out + padded_, 0.0f);
      for_each_vector(dim_, [&](auto load, auto store) { store(out, load(v)); });
    }
    gemm(SmallGemm<float>{scores_, kKeyBlock, values_, padded_, sums_, padded_, rows_, padded_, count, true});
  }

  void store_out() {
    with_float_type(job_.out.dtype, [&](auto type) {
      for (std::int64_t row = 0; row < rows_; ++row) {
        std::int64_t token = 0;
        const std::int64_t at = element_of(row, &token);
        auto* out = reinterpret_cast<decltype(type)*>(job_.out.row(token)) + at;
        const float* sums = sums_ + row * padded_;
        const Simd::Vec factor = Simd::set1(1.0f / weight_[row]);
        for_each_vector(dim_, [&](auto load, auto store) { store(out, Simd::mul(load(sums), factor)); });
      }
    });
  }

  void store_partial() {
    for (std::int64_t row = 0; row < rows_; ++row) {
      float* out = task_.partial + row * (dim_ + 2);
      out[0] = largest_[row];
      out[1] = weight_[row];
      std::copy(sums_ + row * padded_, sums_ + row * padded_ + dim_, out + 2);
    }
  }

 public:
  void combine(const float* partials, std::int64_t parts, std::int64_t stride) {
    for (std::int64_t row = 0; row < rows_; ++row) {
      const float* first = partials + row * (dim_ + 2);
      largest_[row] = -std::numeric_limits<float>::infinity();
      for (std::int64_t p = 0; p < parts; ++p) largest_[row] = std::max(largest_[row], first[p * stride]);
      weight_[row] = 0.0f;
      float* sums = sums_ + row * padded_;
      std::fill(sums, sums + padded_, 0.0f);
      for (std::int64_t p = 0; p < parts; ++p) {
        const float* part = first + p * stride;
        const float factor = std::exp(part[0] - largest_[row]);
        weight_[row] += factor * part[1];
        for_each_vector(dim_, [&](auto load, auto store) {
          store(sums, Simd::fma(Simd::set1(factor), load(part + 2), load(sums)));
        });
      }
    }
    store_out();
  }

 private:
  const AttentionJob& job_;
  const AttentionTask& task_;
  std::int64_t rows_, dim_, padded_;
  float* query_;    // [rows, padded], scaled
  float* sums_;     // [rows, padded]
  float* scores_;   // [rows, kKeyBlock]
  float* keys_;     // [padded, kKeyBlock]
  float* values_;   // [kKeyBlock, padded]
  float* largest_;  // [rows]
  float* weight_;   // [rows]: sum of exponentials
};

void attend(const AttentionJob& job, const AttentionTask& task) {
  with_float_type(job.kv.dtype, [&](auto type) { BlockAttention<decltype(type)>(job, task).run(); });
}

void combine(const AttentionJob& job, const AttentionTask& task, const float* partials, std::int64_t parts,
             std::int64_t stride) {
  BlockAttention<float>(job, task).combine(partials, parts, stride);
}

constexpr AttentionKernels kAttentionKernels = {attend, combine};

}  // namespace
}  // namespace grille::kernels
