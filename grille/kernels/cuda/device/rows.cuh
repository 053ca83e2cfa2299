// What kernels over rows of a matrix share: element types, vectors of columns, sums and maxima over a block.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "grille/base/matrix_view.h"
#include "grille/kernels/cuda/device/vector_access.cuh"

namespace grille::kernels {

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }

// Rounded to nearest even.
template <typename T>
__device__ __forceinline__ T from_float(float x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(x);
  if constexpr (std::is_same_v<T, __half>) return __float2half_rn(x);
  if constexpr (std::is_same_v<T, float>) return x;
}

// A row-major matrix on the device.
template <typename T>
struct DeviceRows {
  T* data;
  std::int64_t stride;
  bool vectors;  // whether kRowVector columns from a multiple of it on can be moved at once, in every row

  __device__ T* row(std::int64_t i) const { return data + i * stride; }
};

constexpr int kRowVector = 8;

template <typename T, typename View>
DeviceRows<T> device_rows(const View& view) {
  constexpr std::int64_t kVectorBytes = kRowVector * sizeof(T) < 16 ? kRowVector * sizeof(T) : 16;
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  const bool aligned = reinterpret_cast<std::uintptr_t>(view.data) % kVectorBytes == 0 &&
                       (view.rows <= 1 || view.row_stride * sizeof(T) % kVectorBytes == 0);
  return {reinterpret_cast<T*>(static_cast<Byte*>(view.data)), view.row_stride, aligned};
}

// Calls body(column, count) for this thread's columns of a row: whole vectors where `vectors`, then what is
// left, one by one. count is kRowVector or 1.
template <typename Body>
__device__ __forceinline__ void for_columns(int cols, bool vectors, Body&& body) {
  int whole = 0;
  if (vectors) {
    whole = cols / kRowVector * kRowVector;
    for (int j = static_cast<int>(threadIdx.x) * kRowVector; j < whole;
         j += static_cast<int>(blockDim.x) * kRowVector)
      body(j, std::integral_constant<int, kRowVector>());
  }
  for (int j = whole + static_cast<int>(threadIdx.x); j < cols; j += static_cast<int>(blockDim.x))
    body(j, std::integral_constant<int, 1>());
}

template <typename T, int kCount>
__device__ __forceinline__ void load_floats(float (&to)[kCount], const T* from) {
  if constexpr (kCount == 1) {
    to[0] = to_float(*from);
  } else {
    Elements<std::remove_const_t<T>, kCount> elements;
    load(elements, from, true);
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = to_float(elements.element[i]);
  }
}

template <typename T, int kCount>
__device__ __forceinline__ void store_floats(T* to, const float (&from)[kCount]) {
  if constexpr (kCount == 1) {
    *to = from_float<T>(from[0]);
  } else {
    Elements<T, kCount> elements;
#pragma unroll
    for (int i = 0; i < kCount; ++i) elements.element[i] = from_float<T>(from[i]);
    store(to, elements, true);
  }
}

// combine(a, b) over the threads of a block of at most 1024, in a fixed order; every thread gets the result.
template <typename Combine>
__device__ __forceinline__ float over_block(float value, float neutral, Combine&& combine) {
  __shared__ float warps[32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < static_cast<int>(blockDim.x) / 32 ? warps[lane] : neutral;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  __syncthreads();  // the next call may write
  return value;
}

// Whole warps for `cols` columns, kRowVector a thread.
inline unsigned threads_for_columns(std::int64_t cols) {
  const std::int64_t wanted = (cols + kRowVector - 1) / kRowVector;
  const std::int64_t warps = wanted < 32 ? 1 : (wanted + 31) / 32;
  return static_cast<unsigned>(32 * (warps < 16 ? warps : 16));
}

}  // namespace grille::kernels
