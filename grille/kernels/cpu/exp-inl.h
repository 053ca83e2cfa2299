// exp for vectors. After a simd_*-inl.h, inside its region.
#pragma once

namespace grille::kernels {
namespace {

// e^x with a relative error of at most 2 units in the last place for x in [-87, 88]; below, at most
// e^-87 (1.6e-38); above, e^88. Reduction to |r| <= ln 2 / 2, then the Taylor polynomial of degree 7.
inline Simd::Vec exp(Simd::Vec x) {
  const Simd::Vec clamped = Simd::min(Simd::max(x, Simd::set1(-87.0f)), Simd::set1(88.0f));
  const Simd::Vec n = Simd::round(Simd::mul(clamped, Simd::set1(1.44269504f)));
  Simd::Vec r = Simd::fma(n, Simd::set1(-0.693145752f), clamped);  // ln 2 in two parts
  r = Simd::fma(n, Simd::set1(-1.42860677e-6f), r);
  constexpr float kInverseFactorials[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  Simd::Vec p = Simd::set1(1.0f / 5040);
  for (float coefficient : kInverseFactorials) p = Simd::fma(p, r, Simd::set1(coefficient));
  return Simd::scale_by_power(p, n);
}

}  // namespace
}  // namespace grille::kernels
