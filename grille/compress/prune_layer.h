// One layer's weights through the method that the options name.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "grille/compress/options.h"
#include "grille/prune/statistics.h"

namespace grille::compress {

struct PrunedLayer {
  at::Tensor weight;              // float32 [rows, cols]
  std::optional<double> damping;  // what SparseGPT's factors needed, or ADMM, ALPS and refinement were told
  std::optional<std::int64_t> swaps;  // that refinement made
};

// dense float32 [rows, cols]. `statistics` and their hessian may be null and undefined where
// needs_calibration() is false. Errors are those of grille/prune.
PrunedLayer prune_layer(const at::Tensor& dense, const PruneOptions& options,
                        const prune::InputStatistics* statistics, const at::Tensor& hessian);

}  // namespace grille::compress
