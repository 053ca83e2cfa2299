// What happens to the weights of one block.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "grille/compress/calibration_run.h"
#include "grille/compress/options.h"
#include "grille/models/load.h"

namespace grille::compress {

struct BlockResult {
  std::map<models::Slot, tensors::Weight> weights;
  std::vector<LayerReport> reports;  // in the order of models::kSlots
  std::optional<Reconstruction> reconstruction = std::nullopt;
};

// Prunes and quantizes block `index`. With a calibration run, statistics come from it and the run moves on
// to the next block's inputs (unless no later block is pruned).
BlockResult process_block(const models::ModelFiles& files, const Options& options, std::int64_t index,
                          CalibrationRun* calibration);

// A weight that is not pruned: quantized, or cast to Options::dtype. One that is quantized already stays as
// it is unless `quantize` or Options::dtype asks for something else.
tensors::Weight stored_weight(const tensors::Weight& weight, const models::ModelFiles& files,
                              const Options& options, Quantization quantize, const std::string& name,
                              std::int64_t* saturated = nullptr);

}  // namespace grille::compress
