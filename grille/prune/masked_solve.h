// The best weights for a given mask.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace grille::prune {

// Conjugate gradients on every row at once: X with zeros outside `keep` that makes
// tr((V - X) gram (V - X)^T) smaller with every iteration, and smallest in the limit. Rows that have reached
// their minimum to rounding stay there. The result does not depend on how rows are split over threads.
//   target  V gram, float64 [rows, cols]      gram  float64 [cols, cols], positive semidefinite
//   keep    bool [rows, cols]                  start float64 [rows, cols]; zeros outside `keep` are made
// Cost: `iterations` + 1 products of [rows, cols] and [cols, cols].
at::Tensor masked_solve(const at::Tensor& target, const at::Tensor& gram, const at::Tensor& keep,
                        const at::Tensor& start, std::int64_t iterations);

}  // namespace grille::prune
