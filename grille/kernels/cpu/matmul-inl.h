// The matmul algorithm, once for all instruction sets. After a simd_*-inl.h, inside its region.
//
// The inner loop multiplies 4 weight rows with T tokens, vector lanes along k, so that both sides are read
// as they lie in memory and a sum has the same order for every T. It runs over prepared tokens
//   packed x: [token tile][k step][token of the tile][kStep columns], zero-padded to whole steps
// and over weight rows that are either decoded as they stream by (m fits one tile: every weight is read
// once) or were decoded into a panel
//   panel: [group of 4 rows][k step][row of the group][kStep columns]
// of at most an L2 share before. Sums run over blocks of kBlockColumns columns, which are then added up: a
// panel holds one block.
#pragma once

namespace grille::kernels {
namespace {

constexpr std::int64_t kBlockColumns = 4096;  // of a sum; of a panel
constexpr std::int64_t kInnerColumns = 1024;  // of a token tile that stays in the first-level cache
constexpr std::int64_t kLargestPanel = 64;    // rows

template <typename C>
std::int64_t step_count(std::int64_t k) {
  return (k + C::kStep - 1) / C::kStep;
}

// A run of whole steps of 4 weight rows.
template <typename W>
struct RowSegment {
  const W* values[kRowGroup];
  const std::uint8_t* mask[kRowGroup];
  std::int64_t steps;
  // From here to the same place in the next 4 rows, in bytes.
  std::int64_t next_values;
  std::int64_t next_mask;
};

// Rows of a stored weight. The last, partial step is copied out and padded with zeros.
template <typename C, typename W, bool kTwoFour>
class StreamedRows {
 public:
  using Segment = RowSegment<W>;
  static constexpr int kStepValues = kTwoFour ? C::kStep / 2 : C::kStep;

  // Rows past the last one repeat it: their sums are dropped.
  StreamedRows(const MatmulJob& job, std::int64_t row) {
    const std::int64_t whole = job.k / C::kStep;
    const std::int64_t left = job.k % C::kStep;
    main_.steps = whole;
    main_.next_values = tail_.next_values = kRowGroup * job.value_row_bytes;
    main_.next_mask = tail_.next_mask = kRowGroup * job.mask_row_bytes;
    tail_.steps = left > 0 ? 1 : 0;
    for (std::int64_t r = 0; r < kRowGroup; ++r) {
      const std::int64_t source = std::min(row + r, job.n - 1);
      main_.values[r] = reinterpret_cast<const W*>(job.values + source * job.value_row_bytes);
      main_.mask[r] = kTwoFour ? job.mask + source * job.mask_row_bytes : nullptr;
      if (left > 0) copy_tail(r, whole, left);
    }
  }

  // The part `index` of steps [begin, end).
  Segment segment(int index, std::int64_t begin, std::int64_t end) const {
    if (index == 1) return tail_at(end);
    Segment part = main_;
    for (std::int64_t r = 0; r < kRowGroup; ++r) {
      part.values[r] += begin * kStepValues;
      if constexpr (kTwoFour) part.mask[r] += begin * (C::kStep / 8);
    }
    part.steps = std::min(end, main_.steps) - begin;
    return part;
  }

  static void load(const Segment& s, std::int64_t row, std::int64_t step, typename C::In* out) {
    if constexpr (kTwoFour) {
      C::decode_24(s.values[row] + step * kStepValues, s.mask[row] + step * (C::kStep / 8), out);
    } else {
      C::decode(s.values[row] + step * kStepValues, out);
    }
  }

  // A row is too short for the hardware to learn that it is read in order before it ends, so the same step of
  // the next 4 rows is asked for here.
  static void prefetch(const Segment& s, std::int64_t row, std::int64_t step) {
    Simd::prefetch(reinterpret_cast<const std::byte*>(s.values[row] + step * kStepValues) + s.next_values);
    if constexpr (kTwoFour) Simd::prefetch(s.mask[row] + step * (C::kStep / 8) + s.next_mask);
  }

 private:
  Segment tail_at(std::int64_t end) const {
    Segment part = tail_;
    if (end <= main_.steps) part.steps = 0;
    return part;
  }

  void copy_tail(std::int64_t r, std::int64_t whole, std::int64_t left) {
    std::memset(values_[r], 0, sizeof(values_[r]));
    const std::int64_t count = kTwoFour ? left / 2 : left;
    std::memcpy(values_[r], main_.values[r] + whole * kStepValues,
                static_cast<std::size_t>(count) * sizeof(W));
    tail_.values[r] = values_[r];
    if constexpr (kTwoFour) {
      std::memset(mask_[r], 0, sizeof(mask_[r]));
      std::memcpy(mask_[r], main_.mask[r] + whole * (C::kStep / 8), static_cast<std::size_t>((left + 7) / 8));
      if (left % 8 != 0) mask_[r][left / 8] &= 0x0f;  // the group past the last column
      tail_.mask[r] = mask_[r];
    }
  }

  Segment main_;
  Segment tail_;
  alignas(64) W values_[kRowGroup][kStepValues];
  std::uint8_t mask_[kRowGroup][C::kStep / 8];
};

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

// One step of 4 rows, decoded as they pass, and T tokens.
template <typename C, int T, typename Rows>
inline void multiply_step(const typename Rows::Segment& segment, std::int64_t step,
                          const typename C::Element* x, typename C::Acc (&acc)[kRowGroup][T]) {
  for (int r = 0; r < kRowGroup; ++r) {
    typename C::In w[C::kVectors];
    Rows::load(segment, r, step, w);
    Rows::prefetch(segment, r, step);
    for (int t = 0; t < T; ++t) {
      for (int v = 0; v < C::kVectors; ++v) {
        acc[r][t] = C::dot(acc[r][t], w[v], C::load(x + t * C::kStep + v * C::kLanes));
      }
    }
  }
}

template <typename C, int T>
using Accumulators = typename C::Acc[kRowGroup][T];

// out[t * stride + r] (+)= the sum of acc[r][t]'s lanes.
template <typename C, int T>
void reduce(const Accumulators<C, T>& acc, float* out, std::int64_t stride, bool add) {
  for (int t = 0; t < T; ++t) {
    float sums[kRowGroup];
    C::sum4(acc[0][t], acc[1][t], acc[2][t], acc[3][t], sums);
    for (int r = 0; r < kRowGroup; ++r) out[t * stride + r] = add ? out[t * stride + r] + sums[r] : sums[r];
  }
}

// out[t * stride + r] = sum over k of w[r] * x[t], for 4 rows and T tokens, decoding the rows as they pass.
template <typename C, int T, typename Rows>
void multiply_streamed(const Rows& rows, std::int64_t steps, const typename C::Element* x, float* out,
                       std::int64_t stride) {
  for (std::int64_t begin = 0; begin < steps; begin += kBlockColumns / C::kStep) {
    const std::int64_t end = std::min(steps, begin + kBlockColumns / C::kStep);
    Accumulators<C, T> acc;
    for (auto& row : acc) {
      for (auto& a : row) a = C::zero();
    }
    for (int part = 0; part < 2; ++part) {
      const typename Rows::Segment segment = rows.segment(part, begin, end);
      for (std::int64_t step = 0; step < segment.steps; ++step, x += T * C::kStep) {
        multiply_step<C, T, Rows>(segment, step, x, acc);
      }
    }
    reduce<C, T>(acc, out, stride, begin > 0);
  }
}

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

// The largest tile that the plan may ask for, as the registers allow.
constexpr int kMaxTile = Simd::kLanes == 16 ? 6 : Simd::kLanes == 8 ? 3 : 2;

// Calls work(std::integral_constant<int, tokens>), 1 <= tokens <= kMaxTile.
template <int T = kMaxTile, typename Work>
void with_tile(std::int64_t tokens, Work&& work) {
  if constexpr (T > 1) {
    if (tokens < T) return with_tile<T - 1>(tokens, work);
  }
  work(std::integral_constant<int, T>{});
}

// Steps [first, last) of rows [begin, end) -> panel.
template <typename C, typename Source>
void decode_panel(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::int64_t first,
                  std::int64_t last, typename C::Element* panel) {
  for (std::int64_t row = begin; row < end; row += kRowGroup) {
    const Source source(job, row);
    for (int part = 0; part < 2; ++part) {
      const typename Source::Segment segment = source.segment(part, first, last);
      for (std::int64_t step = 0; step < segment.steps; ++step) {
        for (std::int64_t r = 0; r < kRowGroup; ++r) {
          typename C::In w[C::kVectors];
          Source::load(segment, r, step, w);
          for (int v = 0; v < C::kVectors; ++v) C::store(panel + v * C::kLanes, w[v]);
          panel += C::kStep;
        }
      }
    }
  }
}

// y[0 .. count) = sums * factor * scale + bias (+ y).
template <typename Y>
void store_sums(const float* sums, std::int64_t count, float factor, const float* scale, const float* bias,
                bool accumulate, Y* y) {
  const Simd::Vec factors = Simd::set1(factor);
  for_each_vector(count, [&](auto load, auto store) {
    Simd::Vec v = Simd::mul(load(sums), factors);
    if (scale != nullptr) v = Simd::mul(v, load(scale));
    if (bias != nullptr) v = Simd::add(v, load(bias));
    if (accumulate) v = Simd::add(v, load(y));
    store(y, v);
  });
}

// Stores the sums [tokens, stride] of rows [begin, end) of the weight for tokens from `first` on.
template <typename C>
void store_tile(const MatmulJob& job, const float* sums, std::int64_t stride, std::int64_t first,
                std::int64_t tokens, std::int64_t begin, std::int64_t end) {
  float unit = 1.0f;
  if (job.x_dtype == DType::kFloat8E4M3) unit *= C::kFloat8Unit;
  if (job.weight_dtype == DType::kFloat8E4M3) unit *= C::kFloat8Unit;
  with_float_type(job.y.dtype, [&](auto type) {
    using Y = decltype(type);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const float factor = job.x_scale != nullptr ? unit * job.x_scale[first + t] : unit;
      store_sums(sums + t * stride, end - begin, factor, job.scale ? job.scale + begin : nullptr,
                 job.bias ? job.bias + begin : nullptr, job.accumulate,
                 reinterpret_cast<Y*>(job.y.row(first + t)) + begin);
    }
  });
}

// m fits one tile: decodes as it multiplies.
template <typename C, typename Source>
void run_streamed(const MatmulJob& job, std::int64_t begin, std::int64_t end) {
  alignas(64) float sums[kMaxTile * kLargestPanel];
  const auto* x = static_cast<const typename C::Element*>(job.packed_x);
  const std::int64_t steps = step_count<C>(job.k);
  with_tile(job.m, [&](auto tokens) {
    for (std::int64_t row = begin; row < end; row += kLargestPanel) {
      const std::int64_t row_end = std::min(row + kLargestPanel, end);
      for (std::int64_t r = row; r < row_end; r += kRowGroup) {
        multiply_streamed<C, tokens>(Source(job, r), steps, x, sums + (r - row), kLargestPanel);
      }
      store_tile<C>(job, sums, kLargestPanel, 0, job.m, row, row_end);
    }
  });
}

// One block of a decoded panel times one token tile. sums [T, kLargestPanel] (+)= the products.
template <typename C, int T>
void multiply_panel(const typename C::Element* panel, std::int64_t groups, std::int64_t steps,
                    const typename C::Element* x, float* sums, bool add, Ahead& ahead) {
  typename C::Acc acc[kLargestPanel / kRowGroup][kRowGroup][T];
  constexpr std::int64_t kInnerSteps = kInnerColumns / C::kStep;
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

// Many tokens: decodes a block of a panel of rows, then multiplies it with every tile, while the next rows
// are fetched.
template <typename C, typename Source>
void run_panels(const MatmulJob& job, std::int64_t begin, std::int64_t end) {
  thread_local Scratch panel_scratch, sums_scratch;
  const std::int64_t tile = job.plan.token_tile;
  const std::int64_t panel_rows = job.plan.panel_rows;
  const std::int64_t steps = step_count<C>(job.k);
  const std::int64_t block = std::min(steps, kBlockColumns / C::kStep);
  const std::int64_t tiles = (job.m + tile - 1) / tile;
  auto* panel =
      panel_scratch.get_as<typename C::Element>(static_cast<std::size_t>(block * panel_rows * C::kStep));
  auto* sums = sums_scratch.get_as<float>(static_cast<std::size_t>((job.m + tile) * kLargestPanel));
  const auto* x = static_cast<const typename C::Element*>(job.packed_x);
  for (std::int64_t row = begin; row < end; row += panel_rows) {
    const std::int64_t row_end = std::min(row + panel_rows, end);
    const std::int64_t groups = (row_end - row + kRowGroup - 1) / kRowGroup;
    for (std::int64_t step = 0; step < steps; step += block) {
      const std::int64_t count = std::min(block, steps - step);
      decode_panel<C, Source>(job, row, row_end, step, step + count, panel);
      // The next block of these rows, or the first one of the next rows.
      Ahead ahead = step + count < steps
                        ? panel_ahead<C>(job, row, row_end, step + count,
                                         std::min(steps, step + count + block), tiles * groups * count)
                        : panel_ahead<C>(job, row_end, std::min(row_end + panel_rows, end), 0, block,
                                         tiles * groups * count);
      for (std::int64_t first = 0; first < job.m; first += tile) {
        with_tile(std::min(tile, job.m - first), [&](auto tokens) {
          multiply_panel<C, tokens>(panel, groups, count, x + (first * steps + tokens * step) * C::kStep,
                                    sums + first * kLargestPanel, step > 0, ahead);
        });
      }
    }
    store_tile<C>(job, sums, kLargestPanel, 0, job.m, row, row_end);
  }
}

template <typename C, typename Source>
void run_rows(const MatmulJob& job, std::int64_t begin, std::int64_t end) {
  job.plan.expand_panel ? run_panels<C, Source>(job, begin, end) : run_streamed<C, Source>(job, begin, end);
}

template <typename C, typename X>
void pack_tile(const ConstMatrixView& x, std::int64_t first, std::int64_t tokens,
               typename C::Element* packed) {
  const std::int64_t steps = step_count<C>(x.cols);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto* row = reinterpret_cast<const X*>(x.row(first + t));
    typename C::Element* out = packed + t * C::kStep;
    for (std::int64_t step = 0; step < steps; ++step, out += tokens * C::kStep) {
      const X* in = row + step * C::kStep;
      const std::int64_t left = x.cols - step * C::kStep;
      X tail[C::kStep] = {};
      if (left < C::kStep) {
        std::memcpy(tail, in, static_cast<std::size_t>(left) * sizeof(X));
        in = tail;
      }
      typename C::In v[C::kVectors];
      C::decode(in, v);
      for (int i = 0; i < C::kVectors; ++i) C::store(out + i * C::kLanes, v[i]);
    }
  }
}

template <typename C, typename X>
void pack_tiles(const ConstMatrixView& x, const MatmulPlan& plan, std::int64_t begin, std::int64_t end,
                void* packed) {
  const std::int64_t row_elements = step_count<C>(x.cols) * C::kStep;
  for (std::int64_t tile = begin; tile < end; ++tile) {
    const std::int64_t first = tile * plan.token_tile;
    pack_tile<C, X>(x, first, std::min<std::int64_t>(plan.token_tile, x.rows - first),
                    static_cast<typename C::Element*>(packed) + first * row_elements);
  }
}

template <typename C>
std::int64_t packed_size(const ConstMatrixView& x) {
  return x.rows * step_count<C>(x.cols) * C::kStep * static_cast<std::int64_t>(sizeof(typename C::Element));
}

// Tokens of any dtype for the float32 class.
void pack_float(const ConstMatrixView& x, const MatmulPlan& plan, std::int64_t begin, std::int64_t end,
                void* packed) {
  with_element_type(
      x.dtype, [&](auto type) { pack_tiles<FloatCompute, decltype(type)>(x, plan, begin, end, packed); });
}

template <typename C>
void run_weight(const MatmulJob& job, std::int64_t begin, std::int64_t end) {
  auto run = [&](auto type) {
    using W = decltype(type);
    if (job.mask != nullptr) return run_rows<C, StreamedRows<C, W, true>>(job, begin, end);
    run_rows<C, StreamedRows<C, W, false>>(job, begin, end);
  };
  if constexpr (std::is_same_v<typename C::Element, float>) {
    with_element_type(job.weight_dtype, run);
  } else {
    job.weight_dtype == DType::kFloat8E4M3 ? run(Float8{}) : run(BFloat16{});
  }
}

}  // namespace
}  // namespace grille::kernels
