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
  // `plans`: what grille's own contenders plan with; null: the built-in ones.
  Registry(int device, const kernels::Matmul24PlanTable* plans) : device_(device), plans_(plans) {}

  // Throws Error with the reason why `info` cannot take part here. `data` must outlive the contender.
  std::unique_ptr<Contender> make(const ContenderInfo& info, LayerData& data);

  // Versions of the libraries that were loaded.
  void describe(DeviceRecord& record) const;

 private:
  int device_;
  const kernels::Matmul24PlanTable* plans_;
  std::shared_ptr<CublasLt> cublaslt_;
  std::shared_ptr<CusparseLt> cusparselt_;
};

}  // namespace grille::benchmark
