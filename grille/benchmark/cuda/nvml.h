// What the driver's management library says of a device: clocks, power limit, driver version.
#pragma once

#include <memory>
#include <string>

namespace grille::benchmark {

class Nvml {
 public:
  explicit Nvml(int device);  // a CUDA ordinal; without the library every figure is 0 or empty
  ~Nvml();

  std::string driver() const;
  double sm_mhz() const;  // now
  double sm_mhz_max() const;
  double power_limit_watts() const;

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;
  void* device_ = nullptr;
};

}  // namespace grille::benchmark
