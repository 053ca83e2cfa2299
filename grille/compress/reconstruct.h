// Training a pruned block's kept weights until its output is the dense block's: block reconstruction as in
// EBFT, arXiv 2402.12419.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grille/compress/calibration_run.h"
#include "grille/compress/options.h"
#include "grille/models/decoder.h"

namespace grille::compress {

// Windows that reconstruct() trains on and stops by, of `windows` (at least 2) in all: every eighth is held
// out, or the last one where there are fewer.
bool is_held_out(std::size_t window, std::size_t windows);

// Changes `weights` (float32, pruned) so that the block of `layer` with them gives `targets`, one [tokens,
// hidden] a window of `calibration`: Adam in float32, a window a step, on the mean over tokens of
//   ||output - target||^2 / ||target||^2
// (relative, since the next block normalises every token, and one with massive activations would hide all
// others). Zeros stay zeros; layers that are not in `weights` and norms stay as they are. After every epoch
// the held-out windows are run: the best weights so far are what remains, and two epochs without a better one
// end it. The order of the windows comes from seed and `index`. The result depends on those, the inputs and
// the number of threads. Cost: an epoch is three forward passes over the windows; memory: five times the
// weights, one window's activations.
Reconstruction reconstruct(const models::DecoderLayer& layer, std::int64_t index,
                           const CalibrationRun& calibration, const std::vector<at::Tensor>& targets,
                           const ReconstructOptions& options, std::uint64_t seed,
                           std::map<models::Slot, at::Tensor>& weights);

}  // namespace grille::compress
