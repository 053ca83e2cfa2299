// grille's own 2:4 linear layers on Hopper.
#pragma once

#include <memory>

#include "grille/benchmark/cuda/layer_data.h"
#include "grille/kernels/matmul_24_plan_table.h"

namespace grille::benchmark {

// matmul_24_sm90 with the plan that it chooses by itself as the only candidate, started ahead of the end of
// the kernel before (overlap_previous), as in a model: no weight depends on the kernel before. y is float16
// for float16, else bfloat16. `plans` null: the built-in ones. Throws Error{kUnsupported} if the device has
// no such kernel. `data` and `plans` must outlive the contender.
std::unique_ptr<Contender> make_two_four_sm90(const ContenderInfo& info, LayerData& data, int device,
                                              const kernels::Matmul24PlanTable* plans);

// The same kernels with every plan that is worth a try.
class TwoFourPlans : public Contender {
 public:
  using Contender::Contender;
  // Of the candidates of a prepared m, the rule's first.
  virtual const std::vector<kernels::Matmul24Sm90Plan>& plans(std::int64_t m) const = 0;
};

std::unique_ptr<TwoFourPlans> make_two_four_plans(const ContenderInfo& info, LayerData& data, int device);

}  // namespace grille::benchmark
