#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "grille/benchmark/cuda/random_data.h"
#include "grille/kernels/cuda/launch.h"

namespace grille::benchmark {
namespace {

constexpr int kThreads = 256;

// splitmix64's finalizer: a counter-based generator.
__device__ inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Two independent normal numbers from 64 random bits (Box-Muller).
__device__ inline float2 normal_pair(std::uint64_t bits) {
  const float u = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;
  const float angle = static_cast<float>((bits >> 8) & 0xffffff) * 0x1p-23f;  // in units of pi
  const float radius = sqrtf(-2.0f * logf(u));
  float sine, cosine;
  sincospif(angle, &sine, &cosine);
  return {radius * cosine, radius * sine};
}

__device__ inline void store(float v, __nv_bfloat16* out) { *out = __float2bfloat16(v); }
__device__ inline void store(float v, __half* out) { *out = __float2half(v); }
__device__ inline void store(float v, __nv_fp8_e4m3* out) {
  out->__x = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
}
__device__ inline void store(float v, std::int8_t* out) {
  *out = static_cast<std::int8_t>(fminf(fmaxf(rintf(v), -127.0f), 127.0f));
}

// A thread makes 4 consecutive numbers at a time.
template <typename T>
__global__ void fill_normal_kernel(T* data, std::int64_t groups, float deviation, bool two_four,
                                   std::uint64_t seed) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; group < groups;
       group += step) {
    const std::uint64_t counter = mixed(seed) + 2 * static_cast<std::uint64_t>(group);
    const float2 low = normal_pair(mixed(counter)), high = normal_pair(mixed(counter + 1));
    const float values[4] = {low.x, low.y, high.x, high.y};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int larger = 0;  // of the others; of equal ones the higher column counts as larger
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float a = fabsf(values[j]), b = fabsf(values[i]);
        larger += j != i && (a > b || (a == b && j > i));
      }
      store(two_four && larger >= 2 ? 0.0f : values[i] * deviation, data + 4 * group + i);
    }
  }
}

__global__ void fill_uniform_kernel(float* data, std::int64_t count, float low, float high,
                                    std::uint64_t seed) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const float u = static_cast<float>(mixed(mixed(seed) + static_cast<std::uint64_t>(i)) >> 40) * 0x1p-24f;
  data[i] = low + (high - low) * u;
}

template <typename T>
void launch(void* data, std::int64_t count, float deviation, bool two_four, std::uint64_t seed,
            cudaStream_t stream) {
  fill_normal_kernel<<<2048, kThreads, 0, stream>>>(static_cast<T*>(data), count / 4, deviation, two_four,
                                                    seed);
}

}  // namespace

void fill_normal(void* data, DType dtype, std::int64_t count, float deviation, bool two_four,
                 std::uint64_t seed, cudaStream_t stream) {
  switch (dtype) {
    case DType::kBFloat16: launch<__nv_bfloat16>(data, count, deviation, two_four, seed, stream); break;
    case DType::kFloat16: launch<__half>(data, count, deviation, two_four, seed, stream); break;
    case DType::kFloat8E4M3: launch<__nv_fp8_e4m3>(data, count, deviation, two_four, seed, stream); break;
    case DType::kInt8: launch<std::int8_t>(data, count, deviation, two_four, seed, stream); break;
    default: kernels::check_cuda(cudaErrorInvalidValue, "fill_normal: no such type");
  }
  kernels::check_cuda(cudaGetLastError(), "fill_normal");
}

void fill_uniform(float* data, std::int64_t count, float low, float high, std::uint64_t seed,
                  cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  fill_uniform_kernel<<<blocks, kThreads, 0, stream>>>(data, count, low, high, seed);
  kernels::check_cuda(cudaGetLastError(), "fill_uniform");
}

}  // namespace grille::benchmark
