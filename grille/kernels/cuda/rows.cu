#include "grille/kernels/cuda/rows.h"

#include <cuda_fp8.h>

#include "grille/formats/fp8.h"
#include "grille/kernels/cuda/device/rows.cuh"
#include "grille/kernels/cuda/launch.h"

namespace grille::kernels {
namespace {

// Calls body(T()) with the element type of a float32, bfloat16 or float16 matrix.
template <typename Body>
void with_element(DType dtype, const char* op, Body&& body) {
  switch (dtype) {
    case DType::kFloat32: return body(float());
    case DType::kBFloat16: return body(__nv_bfloat16());
    case DType::kFloat16: return body(__half());
    default: refuse_row_dtype(op, dtype);
  }
}

cudaStream_t handle(const Stream& stream) { return static_cast<cudaStream_t>(stream.handle); }

// A block a row.
template <typename T>
__global__ void rms_norm_kernel(DeviceRows<const T> x, const float* weight, float eps, int cols,
                                DeviceRows<T> y) {
  const T* from = x.row(blockIdx.x);
  T* to = y.row(blockIdx.x);
  float squares = 0.0f;
  for_columns(cols, x.vectors, [&](int j, auto count) {
    float v[count];
    load_floats(v, from + j);
#pragma unroll
    for (int i = 0; i < count; ++i) squares = fmaf(v[i], v[i], squares);
  });
  squares = over_block(squares, 0.0f, [](float a, float b) { return a + b; });
  const float factor = 1.0f / sqrtf(squares / static_cast<float>(cols) + eps);
  for_columns(cols, x.vectors && y.vectors, [&](int j, auto count) {
    float v[count];
    load_floats(v, from + j);
#pragma unroll
    for (int i = 0; i < count; ++i) v[i] = __ldg(weight + j + i) * to_float(from_float<T>(v[i] * factor));
    store_floats(to + j, v);
  });
}

__device__ __forceinline__ float silu_mul(float gate, float up) { return gate / (1.0f + expf(-gate)) * up; }

template <typename T>
__global__ void silu_mul_kernel(DeviceRows<const T> gates, DeviceRows<const T> ups, int cols,
                                DeviceRows<T> y) {
  const std::int64_t row = blockIdx.x;
  for_columns(cols, gates.vectors && ups.vectors && y.vectors, [&](int j, auto count) {
    float gate[count], up[count];
    load_floats(gate, gates.row(row) + j);
    load_floats(up, ups.row(row) + j);
#pragma unroll
    for (int i = 0; i < count; ++i) gate[i] = silu_mul(gate[i], up[i]);
    store_floats(y.row(row) + j, gate);
  });
}

// A thread takes pairs of one row.
template <typename T>
__global__ void silu_mul_pairs_kernel(DeviceRows<const T> x, int cols, DeviceRows<T> y) {
  const T* from = x.row(blockIdx.x);
  T* to = y.row(blockIdx.x);
  for_columns(2 * cols, x.vectors, [&](int j, auto count) {
    if constexpr (count == 1) {
      if (j % 2 == 0) to[j / 2] = from_float<T>(silu_mul(to_float(from[j]), to_float(from[j + 1])));
    } else {
      float v[count];
      load_floats(v, from + j);
#pragma unroll
      for (int i = 0; i < count / 2; ++i) to[j / 2 + i] = from_float<T>(silu_mul(v[2 * i], v[2 * i + 1]));
    }
  });
}

// A thread rotates pairs of one row.
template <typename T>
__global__ void rope_kernel(DeviceRows<T> x, int cols, int half, const float* cosines, const float* sines) {
  T* row = x.row(blockIdx.x);
  const float* cosine = cosines + static_cast<std::int64_t>(blockIdx.x) * half;
  const float* sine = sines + static_cast<std::int64_t>(blockIdx.x) * half;
  for (int pair = static_cast<int>(threadIdx.x); pair < cols / 2; pair += static_cast<int>(blockDim.x)) {
    const int i = pair % half;
    T* first = row + pair / half * (2 * half) + i;
    T* second = first + half;
    const float a = to_float(*first), b = to_float(*second), c = __ldg(cosine + i), s = __ldg(sine + i);
    *first = from_float<T>(__fsub_rn(__fmul_rn(a, c), __fmul_rn(b, s)));
    *second = from_float<T>(fmaf(a, s, __fmul_rn(b, c)));
  }
}

__device__ __forceinline__ std::uint8_t fp8_code(float value) {
  const std::uint8_t code = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
  return code == 0x80 ? 0 : code;  // -0
}

template <typename T>
__global__ void quantize_fp8_rows_kernel(DeviceRows<const T> x, int cols, DeviceRows<std::uint8_t> q,
                                         float* scales) {
  const T* from = x.row(blockIdx.x);
  std::uint8_t* to = q.row(blockIdx.x);
  float largest = 0.0f;
  for_columns(cols, x.vectors, [&](int j, auto count) {
    float v[count];
    load_floats(v, from + j);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const float magnitude = fabsf(v[i]);
      largest = largest != largest || magnitude <= largest ? largest : magnitude;  // a NaN stays
    }
  });
  largest = over_block(largest, 0.0f, [](float a, float b) { return a != a || b <= a ? a : b; });
  constexpr float kSmallest = 1.0f / (formats::kFp8Max * 512.0f);
  const float from_amax = largest / formats::kFp8Max;
  const float scale = from_amax <= kSmallest ? kSmallest : from_amax;
  for_columns(cols, x.vectors && q.vectors, [&](int j, auto count) {
    float v[count];
    load_floats(v, from + j);
    if constexpr (count == 1) {
      to[j] = fp8_code(v[0] / scale);
    } else {
      Elements<std::uint8_t, count> codes;
#pragma unroll
      for (int i = 0; i < count; ++i) codes.element[i] = fp8_code(v[i] / scale);
      store(to + j, codes, true);
    }
  });
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}

}  // namespace

void rms_norm_cuda(const ConstMatrixView& x, const float* weight, float eps, const MatrixView& y,
                   const Stream& stream) {
  if (x.rows == 0) return;
  const CurrentDevice device(stream.device.index);
  with_element(x.dtype, "rms_norm", [&](auto element) {
    using T = decltype(element);
    rms_norm_kernel<T><<<static_cast<unsigned>(x.rows), threads_for_columns(x.cols), 0, handle(stream)>>>(
        device_rows<const T>(x), weight, eps, static_cast<int>(x.cols), device_rows<T>(y));
  });
  check_cuda(cudaGetLastError(), "rms_norm");
}

void silu_mul_cuda(const ConstMatrixView& gate, const ConstMatrixView& up, const MatrixView& y,
                   const Stream& stream) {
  if (gate.rows == 0) return;
  const CurrentDevice device(stream.device.index);
  with_element(gate.dtype, "silu_mul", [&](auto element) {
    using T = decltype(element);
    silu_mul_kernel<T>
        <<<static_cast<unsigned>(gate.rows), threads_for_columns(gate.cols), 0, handle(stream)>>>(
            device_rows<const T>(gate), device_rows<const T>(up), static_cast<int>(gate.cols),
            device_rows<T>(y));
  });
  check_cuda(cudaGetLastError(), "silu_mul");
}

void silu_mul_pairs_cuda(const ConstMatrixView& x, const MatrixView& y, const Stream& stream) {
  if (x.rows == 0) return;
  const CurrentDevice device(stream.device.index);
  with_element(x.dtype, "silu_mul_pairs", [&](auto element) {
    using T = decltype(element);
    silu_mul_pairs_kernel<T>
        <<<static_cast<unsigned>(x.rows), threads_for_columns(x.cols), 0, handle(stream)>>>(
            device_rows<const T>(x), static_cast<int>(y.cols), device_rows<T>(y));
  });
  check_cuda(cudaGetLastError(), "silu_mul_pairs");
}

void rope_cuda(const MatrixView& x, std::int64_t head_dim, const float* cos, const float* sin,
               const Stream& stream) {
  if (x.rows == 0) return;
  const CurrentDevice device(stream.device.index);
  with_element(x.dtype, "rope", [&](auto element) {
    using T = decltype(element);
    rope_kernel<T><<<static_cast<unsigned>(x.rows), 256, 0, handle(stream)>>>(
        device_rows<T>(x), static_cast<int>(x.cols), static_cast<int>(head_dim / 2), cos, sin);
  });
  check_cuda(cudaGetLastError(), "rope");
}

void quantize_fp8_rows_cuda(const ConstMatrixView& x, const MatrixView& q, float* scale,
                            const Stream& stream) {
  if (x.rows == 0) return;
  const CurrentDevice device(stream.device.index);
  with_element(x.dtype, "quantize_fp8_rows", [&](auto element) {
    using T = decltype(element);
    quantize_fp8_rows_kernel<T>
        <<<static_cast<unsigned>(x.rows), threads_for_columns(x.cols), 0, handle(stream)>>>(
            device_rows<const T>(x), static_cast<int>(x.cols), device_rows<std::uint8_t>(q), scale);
  });
  check_cuda(cudaGetLastError(), "quantize_fp8_rows");
}

}  // namespace grille::kernels
