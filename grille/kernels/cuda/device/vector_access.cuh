// kCount neighbouring elements moved at once, as vectors of up to 16 bytes, or one by one.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace grille::kernels {

template <int kBytes>
struct VectorOf;
template <>
struct VectorOf<4> {
  using Type = std::uint32_t;
};
template <>
struct VectorOf<8> {
  using Type = uint2;
};
template <>
struct VectorOf<16> {
  using Type = uint4;
};

// One vector of kCount elements, or several of 16 bytes.
template <typename T, int kCount>
union Elements {
  static constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  static constexpr int kVectorBytes = kBytes < 16 ? kBytes : 16;
  static constexpr int kVectors = kBytes / kVectorBytes;
  using Vector = typename VectorOf<kVectorBytes>::Type;
  T element[kCount];
  Vector vector[kVectors];
};

template <typename T, int kCount>
__device__ void load(Elements<T, kCount>& to, const T* from, bool as_vector) {
  if (as_vector) {
    const auto* source = reinterpret_cast<const typename Elements<T, kCount>::Vector*>(from);
#pragma unroll
    for (int i = 0; i < Elements<T, kCount>::kVectors; ++i) to.vector[i] = __ldg(source + i);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to.element[i] = from[i];
  }
}

template <typename T, int kCount>
__device__ void store(T* to, const Elements<T, kCount>& from, bool as_vector) {
  if (as_vector) {
    auto* target = reinterpret_cast<typename Elements<T, kCount>::Vector*>(to);
#pragma unroll
    for (int i = 0; i < Elements<T, kCount>::kVectors; ++i) target[i] = from.vector[i];
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = from.element[i];
  }
}

}  // namespace grille::kernels
