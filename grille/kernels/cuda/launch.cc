#include "grille/kernels/cuda/launch.h"

#include "grille/base/error.h"

namespace grille::kernels {

void check_cuda(cudaError_t status, const char* op) {
  check(status == cudaSuccess, ErrorCode::kDevice, "{}: {} ({})", op, cudaGetErrorString(status),
        cudaGetErrorName(status));
}

CurrentDevice::CurrentDevice(int index) {
  int current = -1;
  check_cuda(cudaGetDevice(&current), "cudaGetDevice");
  if (current == index) return;
  check_cuda(cudaSetDevice(index), "cudaSetDevice");
  previous_ = current;
}

CurrentDevice::~CurrentDevice() {
  if (previous_ >= 0) cudaSetDevice(previous_);  // it was current before: this cannot fail for a new reason
}

DeviceCaps current_device_caps() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  const auto attribute = [device](cudaDeviceAttr name) {
    int value = 0;
    check_cuda(cudaDeviceGetAttribute(&value, name, device), "cudaDeviceGetAttribute");
    return value;
  };
  DeviceCaps caps;
  caps.compute_capability =
      10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor);
  caps.multiprocessors = attribute(cudaDevAttrMultiProcessorCount);
  caps.threads_per_multiprocessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  return caps;
}

DeviceCaps cuda_device_caps(int index) {
  const CurrentDevice device(index);
  return current_device_caps();
}

int cuda_device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

}  // namespace grille::kernels
