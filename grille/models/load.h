// From files to a model that runs.
#pragma once

#include <optional>

#include "grille/base/progress.h"
#include "grille/models/decoder.h"
#include "grille/models/model_files.h"

namespace grille::models {

struct LoadOptions {
  std::optional<DType> compute_dtype;  // empty: the checkpoint's
  // Models with dynamic activations: round activations too (what a GPU does), or not.
  bool round_activations = true;
  // Where the model runs: the CPU, or what tensors::open_device() gave.
  at::Device device = at::kCPU;
};

// Layer by layer, from file to the form that the device's kernels read; no dense copy of a compressed weight
// is made where the device has a kernel for it. Unquantized weights are narrowed to the compute dtype when
// that is smaller than theirs.
Decoder load_decoder(const ModelFiles& files, const LoadOptions& options, Progress& progress);

// The parts, for programs that hold one block at a time: a decoder without layers, and one layer. On the CPU.
Decoder load_decoder_frame(const ModelFiles& files, const LoadOptions& options);
DecoderLayer load_layer(const ModelFiles& files, std::int64_t index, const LoadOptions& options);

// One weight as it is stored, but in 2:4 form where every group allows that, however it is stored: files of
// other programs hold such weights with their zeros.
tensors::Weight load_weight(const ModelFiles& files, std::int64_t layer, Slot slot);

// A small tensor as it is stored. Throws Error{kCorruptData} that names it where a value is NaN or infinite.
at::Tensor read_finite(const ModelFiles& files, const std::string& name);

// float32 copy of a norm weight or bias; finite.
at::Tensor load_vector(const ModelFiles& files, const std::string& name, std::int64_t length);

}  // namespace grille::models
