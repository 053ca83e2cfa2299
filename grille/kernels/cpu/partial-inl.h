// Loads and stores of fewer elements than a vector holds. After a simd_*-inl.h, inside its region.
#pragma once

namespace grille::kernels {
namespace {

// `count` < kLanes elements, the other lanes zero.
template <typename T>
Simd::Vec load_first(const T* p, std::int64_t count) {
  T lanes[Simd::kLanes] = {};
  std::memcpy(lanes, p, static_cast<std::size_t>(count) * sizeof(T));
  return Simd::load(lanes);
}

template <typename T>
void store_first(T* p, Simd::Vec v, std::int64_t count) {
  T lanes[Simd::kLanes];
  Simd::store(lanes, v);
  std::memcpy(p, lanes, static_cast<std::size_t>(count) * sizeof(T));
}

// body(load, store, i) over [0, count): `load(p)` and `store(p, v)` touch p[i] ... p[i + kLanes - 1], or as
// many as there are left.
template <typename Body>
void for_each_vector(std::int64_t count, Body&& body) {
  std::int64_t i = 0;
  for (; i + Simd::kLanes <= count; i += Simd::kLanes) {
    body([i](const auto* p) { return Simd::load(p + i); },
         [i](auto* p, Simd::Vec v) { Simd::store(p + i, v); });
  }
  if (const std::int64_t left = count - i; left > 0) {
    body([i, left](const auto* p) { return load_first(p + i, left); },
         [i, left](auto* p, Simd::Vec v) { store_first(p + i, v, left); });
  }
}

}  // namespace
}  // namespace grille::kernels
