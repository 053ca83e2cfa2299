// Few tokens (one tile): weight rows are decoded as they stream by, once. After matmul_sums-inl.h.
#pragma once

namespace grille::kernels {
namespace {

constexpr std::int64_t kBytesAhead = 12 * 1024;  // more than what arrives while memory answers, a thread
// Rows of so many bytes are left to the hardware, which follows them well: asking ahead costs a 2:4 float8
// weight with k = 14336 a fifth of its speed on an Intel Xeon (bench_linear --m 1 --k 14336: 2.14 ms, 1.70
// without).
constexpr std::int64_t kLongRow = 4096;

// Columns of sums: the last group of a panel may be a single row, which is summed as 4.
constexpr std::int64_t kSumStride = kLargestPanel + kRowGroup;

// A run of steps of 4 rows, decoded as they pass, and T tokens.
template <typename C, int T, typename Rows>
inline void multiply_segment(const typename C::Constants& constants, const typename Rows::Segment& segment,
                             std::int64_t groups_ahead, const typename C::Element* x,
                             Accumulators<C, T>& acc) {
  for (std::int64_t step = 0; step < segment.steps; ++step, x += T * C::kStep) {
    if (groups_ahead > 0) Rows::prefetch(segment, step, groups_ahead);
    for (int r = 0; r < kRowGroup; ++r) {
      typename C::In w[C::kVectors];
      Rows::load(constants, segment, r, step, w);
      for (int t = 0; t < T; ++t) {
        for (int v = 0; v < C::kVectors; ++v) {
          acc[r][t] = C::dot(acc[r][t], w[v], C::load(x + t * C::kStep + v * C::kLanes));
        }
      }
    }
  }
}

// The sums of 4 rows and T tokens as they grow. An instruction set may have a better way for some.
template <typename C, int T, typename Rows>
struct StreamedSums {
  using Constants = typename C::Constants;

  Accumulators<C, T> sum;

  StreamedSums() {
    for (auto& row : sum) {
      for (auto& a : row) a = C::zero();
    }
  }
  void add(const Constants& constants, const typename Rows::Segment& segment, std::int64_t groups_ahead,
           const typename C::Element* x) {
    multiply_segment<C, T, Rows>(constants, segment, groups_ahead, x, sum);
  }
  void store(float* out, bool more) const { reduce<C, T>(sum, out, kSumStride, more); }
};

// out[t * kSumStride + r] = sum over k of w[r] * x[t], for 4 rows and T tokens.
template <typename C, int T, typename Rows>
void multiply_rows(const typename StreamedSums<C, T, Rows>::Constants& constants, const Rows& rows,
                   std::int64_t steps, std::int64_t groups_ahead, const typename C::Element* x, float* out) {
  for (std::int64_t begin = 0; begin < steps; begin += kBlockColumns / C::kStep) {
    const std::int64_t end = std::min(steps, begin + kBlockColumns / C::kStep);
    StreamedSums<C, T, Rows> sums;
    const typename Rows::Segment whole = rows.whole(begin, end);
    sums.add(constants, whole, groups_ahead, x);
    x += whole.steps * T * C::kStep;
    if (rows.has_tail(end)) sums.add(constants, rows.tail(), 0, x);
    sums.store(out, begin > 0);
  }
}

inline void ask_for(const void* data, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t at = 0; at < bytes; at += kLine) {
    Simd::prefetch_far(static_cast<const std::byte*>(data) + at);
  }
}

// All at once what would otherwise arrive row by row, before asking ahead takes effect.
inline void ask_for_first_rows(const MatmulJob& job, const MatmulBlock& block, std::int64_t rows) {
  const std::int64_t count = std::min(block.rows_ahead_end - block.row_begin, rows);
  ask_for(job.values + block.row_begin * job.value_row_bytes, count * job.value_row_bytes);
  if (job.mask == nullptr) return;
  ask_for(job.mask + block.row_begin * job.mask_row_bytes, count * job.mask_row_bytes);
}

template <typename C, typename Rows>
void run_streamed(const MatmulJob& job, const MatmulBlock& block) {
  alignas(64) float sums[kMaxTile * kSumStride];
  const auto* x = static_cast<const typename C::Element*>(job.packed_x);
  const std::int64_t steps = step_count<C>(job.k);
  const std::int64_t group_bytes = kRowGroup * (job.value_row_bytes + job.mask_row_bytes);
  const std::int64_t groups_ahead =
      group_bytes < kRowGroup * kLongRow ? (kBytesAhead + group_bytes - 1) / group_bytes : 0;
  if (!block.follows) ask_for_first_rows(job, block, kRowGroup * groups_ahead);
  with_tile(job.m, [&](auto tokens) {
    const typename StreamedSums<C, tokens, Rows>::Constants constants;
    for (std::int64_t row = block.row_begin; row < block.row_end; row += kLargestPanel) {
      const std::int64_t row_end = std::min(row + kLargestPanel, block.row_end);
      for (std::int64_t r = row; r < row_end;) {
        const std::int64_t count = row_end - r >= kRowGroup ? kRowGroup : 1;
        const std::int64_t ahead = r + kRowGroup * groups_ahead < block.rows_ahead_end ? groups_ahead : 0;
        multiply_rows<C, tokens>(constants, Rows(job, r, count), steps, ahead, x, sums + (r - row));
        r += count;
      }
      store_block<C>(job, sums, kSumStride, {row, row_end, 0, job.m});
    }
  });
}

}  // namespace
}  // namespace grille::kernels
