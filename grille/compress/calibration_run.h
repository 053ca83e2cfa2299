// Running calibration text through one block after the other.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grille/base/progress.h"
#include "grille/models/decoder.h"
#include "grille/prune/statistics.h"
#include "grille/text/calibration.h"

namespace grille::compress {

// The hidden states of all calibration windows at the boundary between two blocks.
// Memory: windows * context * hidden_size elements of the compute dtype.
class CalibrationRun {
 public:
  CalibrationRun(const models::Decoder& model, const std::vector<text::CalibrationWindow>& windows);

  std::int64_t windows() const { return static_cast<std::int64_t>(hidden_.size()); }
  const models::DecoderConfig& config() const { return model_.config(); }

  struct Window {
    const at::Tensor& hidden;  // inputs of the next block, [tokens, hidden_size]
    const nn::RotaryStep& rotary;
    const std::vector<std::int64_t>& lengths;  // of its documents
  };
  Window window(std::size_t index) const { return {hidden_[index], rotary_[index], lengths_[index]}; }

  // Runs `layer` over all windows and collects the statistics of the inputs of `slots`; one result for
  // each group of slots that share an input, in the order of models::shared_inputs(). Empty groups give null.
  // `outputs`, if given, gets the layer's outputs, one a window.
  std::vector<std::unique_ptr<prune::InputStatistics>> collect(models::DecoderLayer& layer,
                                                               std::int64_t index,
                                                               const std::vector<models::Slot>& slots,
                                                               std::vector<at::Tensor>* outputs = nullptr);

  // Replaces the hidden states by the layer's outputs.
  void advance(const models::DecoderLayer& layer, std::int64_t index);

 private:
  at::Tensor run(const models::DecoderLayer& layer, std::int64_t index, std::size_t window) const;

  const models::Decoder& model_;
  std::vector<at::Tensor> hidden_;  // [tokens, hidden_size]
  std::vector<nn::RotaryStep> rotary_;
  std::vector<std::vector<std::int64_t>> lengths_;  // documents of each window
};

}  // namespace grille::compress
