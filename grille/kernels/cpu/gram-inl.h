// x^T x in fp64 on packed panels of columns. After a simd_*-inl.h, inside its region.
#pragma once

namespace grille::kernels {
namespace {

constexpr int kGramLanes = Simd::kLanes >= 4 ? Simd::kLanes / 2 : 2;
constexpr int kGramVectors = 3;
constexpr int kGramPanel = kGramVectors * kGramLanes;
constexpr int kGramRows = kGramLanes;      // of a tile of accumulators: 24 of 32 registers, or 12 of 16
constexpr std::int64_t kGramTokens = 128;  // a panel's part that stays in the first-level cache
typedef double GramVector __attribute__((vector_size(kGramLanes * sizeof(double))));

void gram_pack(const float* x, std::int64_t stride, std::int64_t tokens, std::int64_t columns,
               double* packed) {
  for (std::int64_t t = 0; t < tokens; ++t, x += stride, packed += kGramPanel) {
    for (std::int64_t c = 0; c < kGramPanel; ++c) packed[c] = c < columns ? static_cast<double>(x[c]) : 0.0;
  }
}

// sums [kGramRows, kGramPanel] += a^T b over `tokens`; a points at the first of its kGramRows columns.
void gram_tile(const double* a, const double* b, std::int64_t tokens, GramVector* sums) {
  GramVector acc[kGramRows][kGramVectors];
  for (int r = 0; r < kGramRows; ++r) {
    for (int v = 0; v < kGramVectors; ++v) acc[r][v] = sums[r * kGramVectors + v];
  }
  for (std::int64_t t = 0; t < tokens; ++t, a += kGramPanel, b += kGramPanel) {
    const auto* bv = reinterpret_cast<const GramVector*>(b);
    const GramVector b0 = bv[0], b1 = bv[1], b2 = bv[2];
    for (int r = 0; r < kGramRows; ++r) {
      const double av = a[r];
      acc[r][0] += av * b0;
      acc[r][1] += av * b1;
      acc[r][2] += av * b2;
    }
  }
  for (int r = 0; r < kGramRows; ++r) {
    for (int v = 0; v < kGramVectors; ++v) sums[r * kGramVectors + v] = acc[r][v];
  }
}

void gram_multiply(const double* a, const double* b, std::int64_t tokens, double* out, std::int64_t stride,
                   std::int64_t rows, std::int64_t cols) {
  GramVector sums[kGramPanel * kGramVectors] = {};
  for (std::int64_t begin = 0; begin < tokens; begin += kGramTokens) {
    const std::int64_t count = std::min(kGramTokens, tokens - begin);
    for (int row = 0; row < kGramPanel; row += kGramRows) {
      gram_tile(a + begin * kGramPanel + row, b + begin * kGramPanel, count, sums + row * kGramVectors);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto* sum = reinterpret_cast<const double*>(sums + r * kGramVectors);
    for (std::int64_t c = 0; c < cols; ++c) out[r * stride + c] += sum[c];
  }
}

constexpr GramKernels kGramKernels{kGramPanel, gram_pack, gram_multiply};

}  // namespace
}  // namespace grille::kernels
