// C [m, n] (+)= A [m, k] B [k, n] in fp32, row-major, for operands that lie in a cache. Lanes along n, so
// that neither operand is rearranged. After a simd_*-inl.h, inside its region.
#pragma once

namespace grille::kernels {
namespace {

template <typename B>
struct SmallGemm {
  const float* a;
  std::int64_t a_stride;
  const B* b;  // n is a multiple of the lanes
  std::int64_t b_stride;
  float* c;
  std::int64_t c_stride;
  std::int64_t m, n, k;
  bool accumulate;
};

constexpr int kGemmRows = 6;
constexpr int kGemmVectors = Simd::kLanes == 16 ? 4 : 2;

template <int kRows, int kVectors, typename B>
void gemm_tile(const SmallGemm<B>& g, std::int64_t row, std::int64_t column) {
  Simd::Vec acc[kRows][kVectors];
  float* c = g.c + row * g.c_stride + column;
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = g.accumulate ? Simd::load(c + r * g.c_stride + v * Simd::kLanes) : Simd::zero();
    }
  }
  const float* a = g.a + row * g.a_stride;
  const B* b = g.b + column;
  for (std::int64_t i = 0; i < g.k; ++i, b += g.b_stride) {
    Simd::Vec bv[kVectors];
    for (int v = 0; v < kVectors; ++v) bv[v] = Simd::load(b + v * Simd::kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Simd::Vec av = Simd::set1(a[r * g.a_stride + i]);
      for (int v = 0; v < kVectors; ++v) acc[r][v] = Simd::fma(av, bv[v], acc[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) Simd::store(c + r * g.c_stride + v * Simd::kLanes, acc[r][v]);
  }
}

template <int kVectors, int kRows = kGemmRows, typename B>
void gemm_column(const SmallGemm<B>& g, std::int64_t column, std::int64_t row = 0) {
  for (; row + kRows <= g.m; row += kRows) gemm_tile<kRows, kVectors>(g, row, column);
  if constexpr (kRows > 1) {
    if (row < g.m) gemm_column<kVectors, kRows - 1>(g, column, row);
  }
}

template <typename B>
void gemm(const SmallGemm<B>& g) {
  std::int64_t column = 0;
  for (; column + kGemmVectors * Simd::kLanes <= g.n; column += kGemmVectors * Simd::kLanes) {
    gemm_column<kGemmVectors>(g, column);
  }
  for (; column < g.n; column += Simd::kLanes) gemm_column<1>(g, column);
}

}  // namespace
}  // namespace grille::kernels
