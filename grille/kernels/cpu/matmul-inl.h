// The matmul algorithm, once for all instruction sets. After a simd_*-inl.h, inside its region.
//
// The inner loop multiplies 4 weight rows with T tokens, vector lanes along k, so that both sides are read
// as they lie in memory and a sum has the same order for every T. It runs over prepared tokens
//   packed x: [token tile][k step][token of the tile][kStep columns], zero-padded to whole steps
// and over weight rows that are either decoded as they stream by (m fits one tile: every weight is read
// once) or were decoded into a panel
//   panel: [group of 4 rows][k step][row of the group][kStep columns]
// of at most an L2 share before.
#pragma once

namespace grille::kernels {
namespace {

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
  static constexpr int kSegments = 2;
  static constexpr bool kDecoded = false;
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

  const Segment& segment(int index) const { return index == 0 ? main_ : tail_; }

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

// Rows that were decoded before.
template <typename C>
class PanelRows {
 public:
  struct Segment {
    const typename C::Element* data;
    std::int64_t steps;
  };
  static constexpr int kSegments = 1;
  static constexpr bool kDecoded = true;

  PanelRows(const typename C::Element* group, std::int64_t steps) : segment_{group, steps} {}
  const Segment& segment(int) const { return segment_; }
  static typename C::In load_vector(const Segment& s, std::int64_t row, std::int64_t step, int vector) {
    return C::load(s.data + (step * kRowGroup + row) * C::kStep + vector * C::kLanes);
  }

 private:
  Segment segment_;
};

// One step of 4 rows and T tokens. Rows that cost nothing to load are loaded vector by vector, so that each
// token vector is read once for all of them; decoding has to finish a row's step at a time.
template <typename C, int T, typename Rows>
inline void multiply_step(const typename Rows::Segment& segment, std::int64_t step,
                          const typename C::Element* x, typename C::Acc (&acc)[kRowGroup][T]) {
  if constexpr (Rows::kDecoded) {
    for (int v = 0; v < C::kVectors; ++v) {
      typename C::In w[kRowGroup];
      for (int r = 0; r < kRowGroup; ++r) w[r] = Rows::load_vector(segment, r, step, v);
      for (int t = 0; t < T; ++t) {
        const typename C::In token = C::load(x + t * C::kStep + v * C::kLanes);
        for (int r = 0; r < kRowGroup; ++r) acc[r][t] = C::dot(acc[r][t], w[r], token);
      }
    }
  } else {
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
}

// out[t * stride + r] = sum over k of w[r] * x[t], for 4 rows and T tokens.
template <typename C, int T, typename Rows>
void multiply_tile(const Rows& rows, const typename C::Element* x, float* out, std::int64_t stride) {
  typename C::Acc acc[kRowGroup][T];
  for (auto& row : acc) {
    for (auto& a : row) a = C::zero();
  }
  for (int part = 0; part < Rows::kSegments; ++part) {
    const typename Rows::Segment segment = rows.segment(part);
    for (std::int64_t step = 0; step < segment.steps; ++step) {
      multiply_step<C, T, Rows>(segment, step, x, acc);
      x += T * C::kStep;
    }
  }
  for (int t = 0; t < T; ++t) C::sum4(acc[0][t], acc[1][t], acc[2][t], acc[3][t], out + t * stride);
}

// The largest tile that the plan may ask for, as the registers allow.
constexpr int kMaxTile = Simd::kLanes == 16 ? 6 : Simd::kLanes == 8 ? 3 : 2;

template <typename C, typename Rows, int T = kMaxTile>
void multiply_tokens(std::int64_t tokens, const Rows& rows, const typename C::Element* x, float* out,
                     std::int64_t stride) {
  if constexpr (T > 1) {
    if (tokens < T) return multiply_tokens<C, Rows, T - 1>(tokens, rows, x, out, stride);
  }
  multiply_tile<C, T>(rows, x, out, stride);
}

// Rows [begin, end) -> panel.
template <typename C, typename Source>
void decode_panel(const MatmulJob& job, std::int64_t begin, std::int64_t end, typename C::Element* panel) {
  for (std::int64_t row = begin; row < end; row += kRowGroup) {
    const Source source(job, row);
    for (int part = 0; part < Source::kSegments; ++part) {
      const typename Source::Segment segment = source.segment(part);
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

template <typename C, typename Source>
void run_rows(const MatmulJob& job, std::int64_t begin, std::int64_t end) {
  thread_local Scratch panel_scratch;
  const MatmulPlan& plan = job.plan;
  const std::int64_t steps = step_count<C>(job.k);
  const std::int64_t group_elements = steps * kRowGroup * C::kStep;
  constexpr std::int64_t kLargestPanel = 64;
  const std::int64_t panel_rows = std::min(plan.panel_rows, kLargestPanel);
  alignas(64) float sums[kMaxTile * kLargestPanel];
  typename C::Element* panel = nullptr;
  if (plan.expand_panel) {
    panel = panel_scratch.get_as<typename C::Element>(
        static_cast<std::size_t>(group_elements * (panel_rows / kRowGroup)));
  }
  const auto* x = static_cast<const typename C::Element*>(job.packed_x);
  for (std::int64_t row = begin; row < end; row += panel_rows) {
    const std::int64_t row_end = std::min(row + panel_rows, end);
    if (plan.expand_panel) decode_panel<C, Source>(job, row, row_end, panel);
    for (std::int64_t first = 0; first < job.m; first += plan.token_tile) {
      const std::int64_t tokens = std::min<std::int64_t>(plan.token_tile, job.m - first);
      const typename C::Element* tile_x = x + first * steps * C::kStep;
      for (std::int64_t r = row; r < row_end; r += kRowGroup) {
        float* out = sums + (r - row);
        if (plan.expand_panel) {
          const PanelRows<C> rows(panel + (r - row) / kRowGroup * group_elements, steps);
          multiply_tokens<C>(tokens, rows, tile_x, out, kLargestPanel);
        } else {
          multiply_tokens<C>(tokens, Source(job, r), tile_x, out, kLargestPanel);
        }
      }
      store_tile<C>(job, sums, kLargestPanel, first, tokens, row, row_end);
    }
  }
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
