// Where data lie and in which order work on them runs.
#pragma once

#include <cstdint>

namespace grille {

enum class DeviceType : std::uint8_t { kCpu, kCuda };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;

  bool operator==(const Device&) const = default;
};

// A queue of work on one device. By default the CPU, where a call returns when its work is done. On a
// CUDA device `handle` is a cudaStream_t (null: that device's default stream) and work is only enqueued.
struct Stream {
  Device device;
  void* handle = nullptr;

  bool on_cuda() const { return device.type == DeviceType::kCuda; }
};

// What a launch plan needs to know of a CUDA device. The defaults are an H200's.
struct DeviceCaps {
  int compute_capability = 90;  // 10 * major + minor
  int multiprocessors = 132;
  int threads_per_multiprocessor = 2048;
};

}  // namespace grille
