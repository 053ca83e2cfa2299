#include "grille/tensors/device.h"

#include <charconv>
#include <mutex>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/kernels/cuda_devices.h"

namespace grille::tensors {
namespace {

// The index in "cuda:N", 0 in "cuda".
int cuda_index(const std::string& name) {
  const std::string prefix = "cuda";
  int index = 0;
  bool good = name.starts_with(prefix);
  if (good && name.size() > prefix.size()) {
    const char* end = name.data() + name.size();
    const char* digits = name.data() + prefix.size() + 1;
    const auto [stop, error] = std::from_chars(digits, end, index);
    good = name[prefix.size()] == ':' && digits < end && error == std::errc() && stop == end && index >= 0;
  }
  check(good, ErrorCode::kInvalidArgument, "--device {}: expected cpu, cuda or cuda:N", name);
  return index;
}

// Its static initialisers register torch's CUDA kernels.
void load_torch_cuda(const std::string& name) {
  static std::once_flag once;
  static std::string why;
  std::call_once(once, [] {
    if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) why = dlerror();
  });
  check(why.empty(), ErrorCode::kUnsupported,
        "--device {}: torch's CUDA library cannot be loaded ({}); use --device cpu", name, why);
}

}  // namespace

at::Device open_device(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  const int index = cuda_index(name);
  const int count = kernels::cuda_device_count();
  check(index < count, ErrorCode::kInvalidArgument, "--device {}: {}; leave it out or use --device cpu", name,
        count == 0 ? "this machine (or this build) has no CUDA device"
                   : fmt::format("there are {} CUDA devices, counted from 0", count));
  load_torch_cuda(name);
  return {at::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

std::int64_t peak_device_bytes(at::Device device) {
  const auto total = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return at::getDeviceAllocator(device.type())->getDeviceStats(device.index()).reserved_bytes.at(total).peak;
}

Stream stream_of(const at::Tensor& tensor) {
  const at::Device device = tensor.device();
  if (device.is_cpu()) return {};
  check(device.is_cuda(), ErrorCode::kUnsupported, "tensor on {}: expected the CPU or a CUDA device",
        device.str());
  const c10::Stream stream = c10::impl::getDeviceGuardImpl(device.type())->getStream(device);
  return {{DeviceType::kCuda, device.index()}, stream.native_handle()};
}

}  // namespace grille::tensors
