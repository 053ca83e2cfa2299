// Many tokens: rows are decoded into a panel
//   [group of rows][k step][row of the group][kStep columns]
// of at most an L2 share, a block of columns at a time, which every token tile then multiplies. After
// matmul_sums-inl.h.
#pragma once

namespace grille::kernels {
namespace {

// Columns of a token tile that are multiplied before the next rows': of floats, what stays in the first-level
// cache. Of bfloat16, which are half as long, the second-level cache delivers as many as are multiplied, and
// putting sums aside costs more (on Zen 4, 3 to 5% at 64 and 256 tokens).
template <typename Element>
constexpr std::int64_t kInnerColumns = sizeof(Element) == 2 ? kBlockColumns : 1024;

// Parts of rows to fetch while something else is computed, some cache lines a step.
class Ahead {
 public:
  struct Rows {
    const std::byte* data = nullptr;
    std::int64_t row_stride = 0;  // all in bytes
    std::int64_t row_bytes = 0;
    std::int64_t rows = 0;
  };

  // First `values`, then `mask`, within `steps` steps.
  Ahead(const Rows& values, const Rows& mask, std::int64_t steps) : rows_(values), then_(mask) {
    const auto lines = [](const Rows& r) { return r.rows * (r.row_bytes / kLine + 1); };
    stride_ = (lines(values) + lines(mask) + steps - 1) / steps * kLine;
  }
  void advance() {
    if (rows_.rows == 0) return;
    for (std::int64_t i = 0; i < stride_; i += kLine) Simd::prefetch_far(rows_.data + offset_ + i);
    offset_ += stride_;
    if (offset_ < rows_.row_bytes) return;
    offset_ = 0;
    rows_.data += rows_.row_stride;
    if (--rows_.rows == 0) rows_ = std::exchange(then_, Rows{});
  }

 private:
  static constexpr std::int64_t kLine = 64;
  Rows rows_;
  Rows then_;
  std::int64_t offset_ = 0;
  std::int64_t stride_;
};

// `steps` steps of a decoded row group and a token tile, added to the sums in `memory` [4][T] vectors.
template <typename C, int T>
void multiply_decoded(const typename C::Element* group, std::int64_t steps, const typename C::Element* x,
                      typename C::Acc* memory, bool first, Ahead& shared_ahead) {
  Ahead ahead = shared_ahead;
  Accumulators<C, T> acc;
  for (int r = 0; r < kRowGroup; ++r) {
    for (int t = 0; t < T; ++t) acc[r][t] = first ? C::zero() : memory[r * T + t];
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    for (int v = 0; v < C::kVectors; ++v) {
      typename C::In w[kRowGroup];
      for (int r = 0; r < kRowGroup; ++r) w[r] = C::load(group + r * C::kStep + v * C::kLanes);
      for (int t = 0; t < T; ++t) {
        const typename C::In token = C::load(x + t * C::kStep + v * C::kLanes);
        for (int r = 0; r < kRowGroup; ++r) acc[r][t] = C::dot(acc[r][t], w[r], token);
      }
    }
    group += kRowGroup * C::kStep;
    x += T * C::kStep;
    ahead.advance();
  }
  for (int r = 0; r < kRowGroup; ++r) {
    for (int t = 0; t < T; ++t) memory[r * T + t] = acc[r][t];
  }
  shared_ahead = ahead;
}

// Steps [first, last) of rows [begin, end) -> panel, which whole groups of rows fill: rows past the last one
// of the weight repeat it, and their sums are dropped.
template <typename C, typename Rows, std::int64_t kGroup = kRowGroup>
void decode_panel(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::int64_t first,
                  std::int64_t last, typename C::Element* panel, Ahead& shared_ahead) {
  const typename C::Constants constants;
  Ahead ahead = shared_ahead;
  const std::int64_t groups = (end - begin + kGroup - 1) / kGroup;
  for (std::int64_t i = 0; i < groups * kGroup; ++i) {
    const Rows row(job, std::min(begin + i, job.n - 1), 1);
    typename C::Element* out = panel + (i / kGroup * (last - first) * kGroup + i % kGroup) * C::kStep;
    const auto decode = [&](const typename Rows::Segment& segment) {
      for (std::int64_t step = 0; step < segment.steps; ++step, out += kGroup * C::kStep) {
        typename C::In w[C::kVectors];
        Rows::load(constants, segment, 0, step, w);
        for (int v = 0; v < C::kVectors; ++v) C::store(out + v * C::kLanes, w[v]);
        ahead.advance();
      }
    };
    decode(row.whole(first, last));
    if (row.has_tail(last)) decode(row.tail());
  }
  shared_ahead = ahead;
}

// One block of a decoded panel times one token tile. sums [T, kLargestPanel] (+)= the products.
template <typename C, int T>
void multiply_panel(const typename C::Element* panel, std::int64_t groups, std::int64_t steps,
                    const typename C::Element* x, float* sums, bool add, Ahead& ahead) {
  typename C::Acc acc[kLargestPanel / kRowGroup][kRowGroup][T];
  constexpr std::int64_t kInnerSteps = kInnerColumns<typename C::Element> / C::kStep;
  for (std::int64_t begin = 0; begin < steps; begin += kInnerSteps) {
    const std::int64_t count = std::min(kInnerSteps, steps - begin);
    for (std::int64_t g = 0; g < groups; ++g) {
      multiply_decoded<C, T>(panel + (g * steps + begin) * kRowGroup * C::kStep, count,
                             x + begin * T * C::kStep, &acc[g][0][0], begin == 0, ahead);
    }
  }
  for (std::int64_t g = 0; g < groups; ++g) reduce<C, T>(acc[g], sums + g * kRowGroup, kLargestPanel, add);
}

// What decode_panel reads for steps [first, last) of rows [begin, end), to be fetched during `during` steps.
template <typename C>
Ahead panel_ahead(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::int64_t first,
                  std::int64_t last, std::int64_t during) {
  const auto value_size = static_cast<std::int64_t>(dtype_size(job.weight_dtype));
  const std::int64_t columns = C::kStep / (job.mask != nullptr ? 2 : 1);  // stored ones a step
  const std::int64_t rows = std::max<std::int64_t>(end - begin, 0);
  const Ahead::Rows values = {job.values + begin * job.value_row_bytes + first * columns * value_size,
                              job.value_row_bytes, (last - first) * columns * value_size, rows};
  if (job.mask == nullptr) return {values, {}, during};
  const auto* mask = reinterpret_cast<const std::byte*>(job.mask + begin * job.mask_row_bytes);
  return {values,
          {mask + first * (C::kStep / 8), job.mask_row_bytes, (last - first) * (C::kStep / 8), rows},
          during};
}

// Rows of a panel, so that all panels of `rows` rows are about equal.
inline std::int64_t balanced_panel(std::int64_t rows, std::int64_t largest) {
  const std::int64_t panels = (rows + largest - 1) / largest;
  const std::int64_t groups = (rows + kRowGroup - 1) / kRowGroup;
  return (groups + panels - 1) / panels * kRowGroup;
}

// Panels whose sums are kept while a part of the columns is multiplied, so that the tokens' same part, all
// that the caches may hold of them, serves each in turn (k = 14336, 256 tokens, 2:4 bfloat16 on 2 cores of a
// Zen 4: 85 ms one panel at a time, 79 so; bench_linear --k 14336 --m 256).
inline std::int64_t panels_together(std::int64_t parts, std::int64_t tokens) {
  constexpr std::int64_t kSums = 256 * 1024;
  constexpr std::int64_t kMostPanels = 8;
  return parts == 1 ? 1 : std::clamp<std::int64_t>(kSums / (tokens * kLargestPanel), 1, kMostPanels);
}

// Decodes columns of a panel of rows, then multiplies them with every tile, while the next panel is fetched.
template <typename C, typename Rows>
void run_panels(const MatmulJob& job, const MatmulBlock& block) {
  thread_local Scratch panel_scratch, sums_scratch;
  const std::int64_t tile = job.plan.token_tile;
  const std::int64_t tokens = block.token_end - block.token_begin;
  const std::int64_t tiles = (tokens + tile - 1) / tile;
  const std::int64_t panel_rows = balanced_panel(block.row_end - block.row_begin, job.plan.panel_rows);
  const std::int64_t steps = step_count<C>(job.k);
  const std::int64_t part = std::min(steps, kBlockColumns / C::kStep);
  const std::int64_t together = panels_together((steps + part - 1) / part, tokens);
  const std::int64_t panel_sums = (tokens + tile) * kLargestPanel;
  auto* panel =
      panel_scratch.get_as<typename C::Element>(static_cast<std::size_t>(part * panel_rows * C::kStep));
  auto* sums = sums_scratch.get_as<float>(static_cast<std::size_t>(together * panel_sums));
  const auto* x = static_cast<const typename C::Element*>(job.packed_x);
  for (std::int64_t begin = block.row_begin; begin < block.row_end; begin += together * panel_rows) {
    const std::int64_t end = std::min(begin + together * panel_rows, block.row_end);
    const auto sums_of = [&](std::int64_t row) { return sums + (row - begin) / panel_rows * panel_sums; };
    const auto end_of = [&](std::int64_t row) { return std::min(row + panel_rows, block.row_end); };
    for (std::int64_t step = 0; step < steps; step += part) {
      const std::int64_t count = std::min(part, steps - step);
      for (std::int64_t row = begin; row < end; row += panel_rows) {
        const std::int64_t groups = (end_of(row) - row + kRowGroup - 1) / kRowGroup;
        // Next come the same columns of the next rows, the next columns of these, or the rows after them.
        const bool last_rows = row + panel_rows >= end;
        const std::int64_t next_step = !last_rows ? step : step + count < steps ? step + count : 0;
        const std::int64_t next_row = !last_rows ? row + panel_rows : next_step > 0 ? begin : end;
        Ahead ahead = panel_ahead<C>(job, next_row, end_of(next_row), next_step,
                                     std::min(steps, next_step + part), tiles * groups * count);
        Ahead nothing({}, {}, 1);  // asking while decoding was a tenth slower with 8 tokens
        decode_panel<C, Rows>(job, row, end_of(row), step, step + count, panel, nothing);
        for (std::int64_t first = block.token_begin; first < block.token_end; first += tile) {
          with_tile(std::min(tile, block.token_end - first), [&](auto T) {
            multiply_panel<C, T>(panel, groups, count, x + (first * steps + T * step) * C::kStep,
                                 sums_of(row) + (first - block.token_begin) * kLargestPanel, step > 0, ahead);
          });
        }
      }
    }
    for (std::int64_t row = begin; row < end; row += panel_rows) {
      store_block<C>(job, sums_of(row), kLargestPanel,
                     {row, end_of(row), block.token_begin, block.token_end});
    }
  }
}

}  // namespace
}  // namespace grille::kernels
