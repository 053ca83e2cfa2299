// From the accumulators of 4 weight rows x T tokens to y. After matmul_rows-inl.h.
#pragma once

namespace grille::kernels {
namespace {

constexpr std::int64_t kBlockColumns = 4096;  // of a sum; of a panel
constexpr std::int64_t kLargestPanel = 64;    // rows

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

// Stores the sums [tokens, stride] of a block.
template <typename C>
void store_block(const MatmulJob& job, const float* sums, std::int64_t stride, const MatmulBlock& block) {
  float unit = 1.0f;
  if (job.x_dtype == DType::kFloat8E4M3) unit *= C::kFloat8Unit;
  if (job.weight_dtype == DType::kFloat8E4M3) unit *= C::kFloat8Unit;
  with_float_type(job.y.dtype, [&](auto type) {
    using Y = decltype(type);
    const std::int64_t row = block.row_begin;
    for (std::int64_t t = block.token_begin; t < block.token_end; ++t) {
      const float factor = job.x_scale != nullptr ? unit * job.x_scale[t] : unit;
      store_sums(sums + (t - block.token_begin) * stride, block.row_end - row, factor,
                 job.scale ? job.scale + row : nullptr, job.bias ? job.bias + row : nullptr, job.accumulate,
                 reinterpret_cast<Y*>(job.y.row(t)) + row);
    }
  });
}

}  // namespace
}  // namespace grille::kernels
