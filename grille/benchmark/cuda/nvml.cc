#include "grille/benchmark/cuda/nvml.h"

#include <array>

#include <cuda_runtime_api.h>

#include "grille/benchmark/cuda/library.h"

namespace grille::benchmark {

// nvml.h comes with no wheel that grille needs; these are its types by their meaning. 0 is NVML_SUCCESS, and
// 1 is NVML_CLOCK_SM.
struct Nvml::Functions {
  SharedLibrary library{"NVML", "libnvidia-ml.so.1", "."};
  int (*init)() = library.function<int (*)()>("nvmlInit_v2");
  int (*shutdown)() = library.function<int (*)()>("nvmlShutdown");
  int (*driver)(char*, unsigned) = library.function<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
  int (*by_bus)(const char*,
                void**) = library.function<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  int (*clock)(void*, int,
               unsigned*) = library.function<int (*)(void*, int, unsigned*)>("nvmlDeviceGetClockInfo");
  int (*clock_max)(void*, int,
                   unsigned*) = library.function<int (*)(void*, int, unsigned*)>("nvmlDeviceGetMaxClockInfo");
  int (*power_limit)(void*, unsigned*) =
      library.function<int (*)(void*, unsigned*)>("nvmlDeviceGetEnforcedPowerLimit");
};

namespace {
constexpr int kSmClock = 1;
}

Nvml::Nvml(int device) {
  try {
    functions_ = std::make_unique<Functions>();
  } catch (const Error&) {
    return;  // documented: no figures
  }
  std::array<char, 32> bus{};
  if (functions_->init() != 0) {
    functions_.reset();
  } else if (cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device) != cudaSuccess ||
             functions_->by_bus(bus.data(), &device_) != 0) {
    device_ = nullptr;
  }
}

Nvml::~Nvml() {
  if (functions_) functions_->shutdown();
}

std::string Nvml::driver() const {
  std::array<char, 81> text{};
  if (!functions_ || functions_->driver(text.data(), text.size() - 1) != 0) return "";
  return text.data();
}

double Nvml::sm_mhz() const {
  unsigned mhz = 0;
  return device_ != nullptr && functions_->clock(device_, kSmClock, &mhz) == 0 ? mhz : 0;
}

double Nvml::sm_mhz_max() const {
  unsigned mhz = 0;
  return device_ != nullptr && functions_->clock_max(device_, kSmClock, &mhz) == 0 ? mhz : 0;
}

double Nvml::power_limit_watts() const {
  unsigned milliwatts = 0;
  return device_ != nullptr && functions_->power_limit(device_, &milliwatts) == 0 ? 1e-3 * milliwatts : 0;
}

}  // namespace grille::benchmark
