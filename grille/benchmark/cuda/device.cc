#include "grille/benchmark/cuda/device.h"

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/benchmark/cuda/bandwidth.h"
#include "grille/kernels/cuda/launch.h"

namespace grille::benchmark {

using kernels::check_cuda;

OwnStream::OwnStream() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

OwnStream::~OwnStream() { cudaStreamDestroy(stream_); }

void check_device(int device) {
  const int devices = kernels::cuda_device_count();
  check(devices > 0, ErrorCode::kUnsupported,
        "bench linear: there is no CUDA device; for the CPU run build/bin/bench_linear");
  check(device < devices, ErrorCode::kInvalidArgument, "bench linear: cuda:{}: there are {} devices", device,
        devices);
}

DeviceRecord describe_device(int device, const Nvml& nvml, cudaStream_t stream) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  int runtime = 0;
  check_cuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  DeviceRecord d;
  d.name = properties.name;
  d.compute_capability = 10 * properties.major + properties.minor;
  d.multiprocessors = properties.multiProcessorCount;
  d.l2_bytes = properties.l2CacheSize;
  d.driver = nvml.driver();
  d.cuda_runtime = fmt::format("{}.{}", runtime / 1000, runtime % 1000 / 10);
  d.sm_mhz_max = nvml.sm_mhz_max();
  d.power_limit_watts = nvml.power_limit_watts();
  const Bandwidth bandwidth = measure_bandwidth(stream);
  d.read_bytes_per_second = bandwidth.read;
  d.copy_bytes_per_second = bandwidth.copy;
  return d;
}

}  // namespace grille::benchmark
