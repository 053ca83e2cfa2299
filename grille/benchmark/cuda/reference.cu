#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "grille/benchmark/cuda/reference.h"
#include "grille/kernels/cuda/launch.h"

namespace grille::benchmark {
namespace {

constexpr int kMaxRows = 16;
constexpr int kWarps = 8;

__device__ inline float value(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ inline float value(__half v) { return __half2float(v); }
__device__ inline float value(__nv_fp8_e4m3 v) { return static_cast<float>(v); }
__device__ inline float value(std::int8_t v) { return static_cast<float>(v); }
__device__ inline double value(float v) { return v; }
__device__ inline double value(std::int32_t v) { return v; }

struct Rows {
  const int* numbers;
  int count;
};

// A warp computes one column n of all rows: values and spreads are [count, n_total].
template <typename T>
__global__ void reference_kernel(const T* x, const T* weight, Rows rows, std::int64_t k, std::int64_t n_total,
                                 ScaleView x_scale, ScaleView weight_scale, double* values, double* spreads) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (n >= n_total) return;
  const int lane = threadIdx.x % 32;
  double sums[kMaxRows] = {};
  float squares[kMaxRows] = {};
  for (std::int64_t i = lane; i < k; i += 32) {
    const float w = value(weight[n * k + i]);
#pragma unroll
    for (int r = 0; r < kMaxRows; ++r) {
      if (r >= rows.count) break;
      const float v = value(x[rows.numbers[r] * k + i]);
      sums[r] += static_cast<double>(v) * w;
      squares[r] += v * v * w * w;
    }
  }
#pragma unroll
  for (int r = 0; r < kMaxRows; ++r) {
    if (r >= rows.count) break;
    for (int step = 16; step > 0; step /= 2) {
      sums[r] += __shfl_xor_sync(0xffffffffu, sums[r], step);
      squares[r] += __shfl_xor_sync(0xffffffffu, squares[r], step);
    }
    if (lane != 0) continue;
    double scale = 1;
    if (x_scale.data != nullptr) scale *= x_scale.data[x_scale.per_row ? rows.numbers[r] : 0];
    if (weight_scale.data != nullptr) scale *= weight_scale.data[weight_scale.per_row ? n : 0];
    values[r * n_total + n] = sums[r] * scale;
    spreads[r * n_total + n] = sqrt(static_cast<double>(squares[r])) * fabs(scale);
  }
}

// Errors are not negative, so that their bits order as they do.
template <typename T>
__global__ void error_kernel(const T* y, Rows rows, std::int64_t n_total, const double* values,
                             const double* spreads, double rounding, double accumulation,
                             unsigned long long* worst) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows.count * n_total) return;
  const double got = value(y[rows.numbers[i / n_total] * n_total + i % n_total]);
  const double want = values[i];
  // The smallest number keeps 0 / 0 out where a whole row of the weight is zero.
  const double tolerance = rounding * (fabs(want) + spreads[i]) + accumulation * spreads[i] + 1e-30;
  const double error = fabs(got - want) / tolerance;
  const double safe = error >= 0 && error < 1e300 ? error : INFINITY;
  atomicMax(worst, static_cast<unsigned long long>(__double_as_longlong(safe)));
}

template <typename T>
void launch_reference(const Product& p, Rows rows, double* values, double* spreads, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((p.weight.rows + kWarps - 1) / kWarps);
  reference_kernel<<<blocks, 32 * kWarps, 0, stream>>>(
      static_cast<const T*>(p.x.data), static_cast<const T*>(p.weight.data), rows, p.x.cols, p.weight.rows,
      p.x_scale, p.weight_scale, values, spreads);
}

struct Tolerance {
  double rounding, accumulation;
};

Tolerance tolerance(const Product& p) {
  const double k = static_cast<double>(p.x.cols);
  const bool half = p.y.dtype == DType::kBFloat16 || p.y.dtype == DType::kFloat16;
  double accumulation = k * 0x1p-22;
  if (p.x.dtype == DType::kFloat8E4M3) accumulation = k / 32 * 0x1p-13;
  if (p.x.dtype == DType::kInt8) accumulation = 0x1p-22;  // the scales' fp32 product
  return {half ? 0x1p-8 : 0x1p-23, accumulation};
}

template <typename T>
void launch_error(const Product& p, Rows rows, const double* values, const double* spreads,
                  unsigned long long* worst, cudaStream_t stream) {
  const Tolerance t = tolerance(p);
  const std::int64_t count = rows.count * p.y.cols;
  error_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(
      static_cast<const T*>(p.y.data), rows, p.y.cols, values, spreads, t.rounding, t.accumulation, worst);
}

std::vector<int> chosen_rows(std::int64_t m, std::uint64_t seed) {
  std::vector<int> rows;
  std::mt19937_64 random(seed);
  for (std::int64_t i = 0; i < m; ++i) rows.push_back(static_cast<int>(i));
  if (m > kMaxRows) {
    std::shuffle(rows.begin() + 1, rows.end() - 1, random);
    rows[kMaxRows - 1] = rows.back();
    rows.resize(kMaxRows);
  }
  return rows;
}

}  // namespace

Reference::Reference(const Product& product, std::uint64_t seed, cudaStream_t stream)
    : product_(product), stream_(stream) {
  const std::vector<int> rows = chosen_rows(product.x.rows, seed);
  rows_ = static_cast<int>(rows.size());
  const std::size_t entries = rows.size() * static_cast<std::size_t>(product.weight.rows);
  row_numbers_ = DeviceMemory(rows.size() * sizeof(int));
  values_ = DeviceMemory(entries * sizeof(double));
  spreads_ = DeviceMemory(entries * sizeof(double));
  worst_ = DeviceMemory(sizeof(unsigned long long));
  kernels::check_cuda(
      cudaMemcpy(row_numbers_.data(), rows.data(), row_numbers_.bytes(), cudaMemcpyHostToDevice),
      "cudaMemcpy");
  const Rows on_device{row_numbers_.data<const int>(), rows_};
  const auto launch = [&](auto kernel) {
    kernel(product_, on_device, values_.data<double>(), spreads_.data<double>(), stream_);
  };
  switch (product.x.dtype) {
    case DType::kBFloat16: launch(launch_reference<__nv_bfloat16>); break;
    case DType::kFloat16: launch(launch_reference<__half>); break;
    case DType::kFloat8E4M3: launch(launch_reference<__nv_fp8_e4m3>); break;
    case DType::kInt8: launch(launch_reference<std::int8_t>); break;
    default: kernels::check_cuda(cudaErrorInvalidValue, "reference: no such type of x");
  }
  kernels::check_cuda(cudaGetLastError(), "reference");
}

double Reference::error() const {
  kernels::check_cuda(cudaMemsetAsync(worst_.data(), 0, worst_.bytes(), stream_), "cudaMemsetAsync");
  const Rows rows{row_numbers_.data<const int>(), rows_};
  const auto launch = [&](auto kernel) {
    kernel(product_, rows, values_.data<const double>(), spreads_.data<const double>(),
           worst_.data<unsigned long long>(), stream_);
  };
  switch (product_.y.dtype) {
    case DType::kBFloat16: launch(launch_error<__nv_bfloat16>); break;
    case DType::kFloat16: launch(launch_error<__half>); break;
    case DType::kFloat32: launch(launch_error<float>); break;
    case DType::kInt32: launch(launch_error<std::int32_t>); break;
    default: kernels::check_cuda(cudaErrorInvalidValue, "reference: no such type of y");
  }
  kernels::check_cuda(cudaGetLastError(), "reference");
  double worst = 0;
  kernels::check_cuda(cudaMemcpyAsync(&worst, worst_.data(), sizeof(worst), cudaMemcpyDeviceToHost, stream_),
                      "cudaMemcpyAsync");
  kernels::check_cuda(cudaStreamSynchronize(stream_), "reference");
  return worst;
}

}  // namespace grille::benchmark
