// Weights of linear layers (and embeddings) in the forms that compressed-tensors stores: dense, FP8
// (`float-quantized`), 2:4 (`sparse-24-bitmask`), and both. docs/formats.md lists the tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "grille/checkpoint/compression_config.h"
#include "grille/checkpoint/safetensors_writer.h"
#include "grille/checkpoint/tensor_source.h"
#include "grille/tensors/weight.h"

namespace grille::checkpoint {

// Reads a module's weight from whatever tensors hold it. 2:4 weights go from the file to their padded rows
// through at most 1 MiB of scratch (or one row), so no dense copy exists. Everything is checked: dtypes,
// shapes against `rows` and `cols`, exactly two columns in every group, finite values, finite positive
// scales. A scale for the whole tensor is repeated for each row. Throws Error{kNotFound, kCorruptData,
// kUnsupported} that name file, tensor, row and group.
tensors::Weight read_linear(const TensorSource& source, const CompressionConfig& config,
                            const std::string& module, std::int64_t rows, std::int64_t cols,
                            const std::string& class_name = "Linear");

// The tensors that read_linear() takes in, of those that the source has: any others are surplus.
std::vector<std::string> linear_tensor_names(const TensorSource& source, const std::string& module);

// How a weight is written.
struct LinearForm {
  bool two_four = false;  // as values and bitmask, else with its zeros
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::kFloat32;
  std::optional<DType> scale_dtype;  // with float8 only
};

// What a writer must announce for it.
std::vector<TensorSpec> linear_tensors(const std::string& module, const LinearForm& form);

// `two_four` is for weights in 2:4 form only; false writes those with their zeros.
LinearForm form_of(const tensors::Weight& weight, bool two_four);

// Writes the tensors of form_of(weight, two_four), a few rows at a time.
void write_linear(SafetensorsWriter& writer, const std::string& module, const tensors::Weight& weight,
                  bool two_four);

}  // namespace grille::checkpoint
