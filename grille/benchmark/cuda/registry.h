// Contenders by name.
#pragma once

#include <memory>

#include "grille/benchmark/cuda/cublaslt.h"
#include "grille/benchmark/cuda/cusparselt.h"
#include "grille/benchmark/linear.h"

namespace grille::benchmark {

// Loads a library when a contender first needs it.
class Registry {
 public:
  explicit Registry(int device) : device_(device) {}

  // Throws Error with the reason why `info` cannot take part here. `data` must outlive the contender.
  std::unique_ptr<Contender> make(const ContenderInfo& info, LayerData& data);

  // Versions of the libraries that were loaded.
  void describe(DeviceRecord& record) const;

 private:
  int device_;
  std::shared_ptr<CublasLt> cublaslt_;
  std::shared_ptr<CusparseLt> cusparselt_;
};

}  // namespace grille::benchmark
