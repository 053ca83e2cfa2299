#include <cstddef>
#include <cstdint>

#include "grille/benchmark/cuda/bandwidth.h"
#include "grille/benchmark/cuda/device_memory.h"
#include "grille/benchmark/cuda/graph.h"
#include "grille/kernels/cuda/launch.h"

namespace grille::benchmark {
namespace {

constexpr int kThreads = 512;
constexpr int kUnroll = 8;  // 128 bytes in flight a thread
constexpr std::size_t kBytes = std::size_t{2} << 30;
constexpr std::size_t kVectors = kBytes / sizeof(uint4);
constexpr unsigned kBlocks = kVectors / (kThreads * kUnroll);

// A block reads one contiguous stretch. The store never happens (the data are zeros); it keeps the loads.
__global__ void read_kernel(const uint4* data, std::uint32_t* sink) {
  const uint4* first = data + static_cast<std::size_t>(blockIdx.x) * kThreads * kUnroll + threadIdx.x;
  uint4 values[kUnroll];
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) values[i] = __ldcs(first + i * kThreads);
  std::uint32_t any = 0;
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) any |= values[i].x | values[i].y | values[i].z | values[i].w;
  if (any != 0) *sink = any;
}

__global__ void copy_kernel(const uint4* from, uint4* to) {
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * kThreads * kUnroll + threadIdx.x;
  uint4 values[kUnroll];
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) values[i] = __ldcs(from + first + i * kThreads);
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) __stcs(to + first + i * kThreads, values[i]);
}

double seconds_of(const Graph& graph, cudaStream_t stream) {
  return median(replay_seconds(graph, 9, stream));
}

}  // namespace

Bandwidth measure_bandwidth(cudaStream_t stream) {
  const DeviceMemory from(kBytes), to(kBytes);
  kernels::check_cuda(cudaMemsetAsync(from.data(), 0, kBytes, stream), "cudaMemsetAsync");
  const Graph read(stream, [&] {
    read_kernel<<<kBlocks, kThreads, 0, stream>>>(from.data<const uint4>(), to.data<std::uint32_t>());
    kernels::check_cuda(cudaGetLastError(), "read bandwidth");
  });
  const Graph copy(stream, [&] {
    copy_kernel<<<kBlocks, kThreads, 0, stream>>>(from.data<const uint4>(), to.data<uint4>());
    kernels::check_cuda(cudaGetLastError(), "copy bandwidth");
  });
  constexpr double kSize = static_cast<double>(kBytes);
  return {kSize / seconds_of(read, stream), 2 * kSize / seconds_of(copy, stream)};
}

}  // namespace grille::benchmark
