// Weights of linear layers (and embeddings) in the forms that compressed-tensors stores: dense, float8 and
// integers
// (`float-quantized`, `int-quantized`, `pack-quantized`), 2:4 (`sparse-24-bitmask`) of any of these but
// packed ones, `sparse-bitmask` (read only), and `marlin-24`. docs/formats.md lists the tensors.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grille/checkpoint/compression_config.h"
#include "grille/checkpoint/safetensors_writer.h"
#include "grille/checkpoint/tensor_source.h"
#include "grille/tensors/weight.h"

namespace grille::checkpoint {

// Reads a module's weight from whatever tensors hold it. 2:4 weights go from the file to their padded rows
// through at most 1 MiB of scratch (or one row), so no dense copy exists. Everything is checked: dtypes,
// shapes against `rows` and `cols`, exactly two columns in every group, finite values, finite positive
// scales, what config.json says. A scale for the whole tensor is repeated for each row.
// Throws Error{kNotFound, kCorruptData, kUnsupported} that name file, tensor, row and group.
tensors::Weight read_linear(const TensorSource& source, const CompressionConfig& config,
                            const std::string& module, std::int64_t rows, std::int64_t cols,
                            const std::string& class_name = "Linear");

// What may follow a module's name in the tensors that read_linear() takes in: ".weight", ".weight_scale", ...
std::span<const std::string_view> linear_suffixes();

// The tensors that read_linear() takes in, of those that the source has: any others are surplus.
std::vector<std::string> linear_tensor_names(const TensorSource& source, const std::string& module);

// Which tensors hold the values.
enum class Encoding {
  kPlain,    // weight: with its zeros
  kTwoFour,  // compressed, bitmask, shape
  kPacked,   // weight_packed, weight_shape: integers, with their zeros
  kMarlin24  // weight_packed, scale_packed, meta: 2:4 integers
};

// How a weight is written.
struct LinearForm {
  Encoding encoding = Encoding::kPlain;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::kFloat32;     // of the values; int8 for all integers
  std::optional<DType> scale_dtype;  // where it is quantized
  int bits = 8;                      // of integers
  bool blocks = false;               // scales for block_rows x block_cols weights, else one a row
  std::int64_t block_rows = 1;
  std::int64_t block_cols = 0;  // 0: all
  bool zero_point = false;
  bool group_index = false;
  QuantizationScheme::Inputs inputs =
      QuantizationScheme::Inputs::kFull;  // not in the tensors: for config.json

  bool two_four() const { return encoding == Encoding::kTwoFour || encoding == Encoding::kMarlin24; }
};

// The scheme that makes a reader expect this form, which is quantized.
QuantizationScheme scheme_of(const LinearForm& form);

// Whether marlin-24 has room for a weight of this form, which is 2:4; see write_linear().
bool fits_marlin_24(const LinearForm& form);

// What a writer must announce for it.
std::vector<TensorSpec> linear_tensors(const std::string& module, const LinearForm& form);

LinearForm form_of(const tensors::Weight& weight, Encoding encoding);

// What a module is stored as. Reads headers only, and does not check what read_linear() will.
LinearForm stored_form(const TensorSource& source, const CompressionConfig& config, const std::string& module,
                       std::int64_t rows, std::int64_t cols, const std::string& class_name = "Linear");

// The modules that have a weight of some form, with its number of rows and columns.
std::map<std::string, std::array<std::int64_t, 2>> modules_in(const TensorSource& source);

// Writes the tensors of form_of(weight, encoding), a few rows at a time. A 2:4 weight can be kPlain and
// kPacked too, with its zeros. Throws Error{kInvalidArgument} for a weight that the encoding has no room for:
// kTwoFour of a dense one; kPacked of anything but integers; kMarlin24 of anything but 2:4 integers with a
// scale a row or for 128 columns, of rows and columns that are multiples of 64.
void write_linear(SafetensorsWriter& writer, const std::string& module, const tensors::Weight& weight,
                  Encoding encoding);

}  // namespace grille::checkpoint
