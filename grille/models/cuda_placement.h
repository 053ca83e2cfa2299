// Puts a decoder on a CUDA device, layer by layer as it is loaded.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "grille/models/decoder.h"
#include "grille/nn/cuda_weight.h"

namespace grille::models {

class CudaPlacement {
 public:
  CudaPlacement(at::Device device, at::ScalarType compute)
      : device_(device), compute_(compute), workspace_(std::make_shared<nn::CudaWorkspace>()) {}

  // The embedding, the last norm and the head; a tied head shares the embedding's memory.
  void place_frame(Decoder& decoder);
  // Layers that read the same input share one weight; gate and up are interleaved in theirs.
  void place_layer(DecoderLayer& layer);

  // "18 dense bfloat16, 120 2:4 float8_e4m3fn": the weights that were placed so far, by form.
  std::string summary() const;

 private:
  std::shared_ptr<const nn::CudaWeight> weight_of(std::span<const nn::WeightLinear* const> layers,
                                                  bool interleave);
  void place_group(DecoderLayer& layer, std::span<const Slot> slots);

  at::Device device_;
  at::ScalarType compute_;
  std::shared_ptr<nn::CudaWorkspace> workspace_;
  std::map<std::string, int> formats_;
};

}  // namespace grille::models
