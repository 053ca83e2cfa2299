// grille's own 2:4 linear layers on Hopper.
#pragma once

#include <memory>

#include "grille/benchmark/cuda/layer_data.h"

namespace grille::benchmark {

// matmul_24_sm90 with its own plan as the only candidate, started ahead of the end of the kernel before
// (overlap_previous), as in a model: no weight depends on the kernel before. y is float16 for float16, else
// bfloat16. Throws Error{kUnsupported} if the device has no such kernel. `data` must outlive the contender.
std::unique_ptr<Contender> make_two_four_sm90(const ContenderInfo& info, LayerData& data, int device);

}  // namespace grille::benchmark
