// The part of a config.json that says how weights are compressed: compressed-tensors' `quantization_config`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "grille/checkpoint/module_targets.h"

namespace grille::checkpoint {

// How the numbers of a quantized weight are stored, and what they multiply.
struct QuantizationScheme {
  enum class Format {
    kFloat,     // float-quantized: float8
    kInt,       // int-quantized: an int8 for each weight
    kPacked,    // pack-quantized: 4 or 8 bits a weight in int32 words
    kMarlin24,  // marlin-24: the kept values of 2:4 weights, 4 or 8 bits each
  };
  enum class Strategy {
    kChannel,  // a scale for each row
    kTensor,   // one for all rows
    kGroup,    // one for block_cols columns of a row
    kBlock,    // one for block_rows rows of block_cols columns
  };
  enum class Inputs {
    kFull,
    kFp8,        // rounded to float8 with a scale for each token
    kInt8,       // rounded to int8 with a scale for each token
    kFp8Groups,  // rounded to float8 with a scale for each token and group of columns; here taken in full
  };
  Format format = Format::kFloat;
  Strategy strategy = Strategy::kChannel;
  Inputs inputs = Inputs::kFp8;
  int bits = 8;
  bool symmetric = true;          // no zero points
  bool activation_order = false;  // columns belong to groups in an order of their own (weight_g_idx)
  std::int64_t block_rows = 1;    // weights that share a scale
  std::int64_t block_cols = 0;    // 0: all of a row

  friend bool operator==(const QuantizationScheme&, const QuantizationScheme&) = default;
  // clang-tidy 14 takes the comparisons with 0 in it for null pointers.
  friend auto operator<=>(const QuantizationScheme&,
                          const QuantizationScheme&) = default;  // NOLINT(modernize-use-nullptr)
};

// "float-quantized", ...
std::string_view format_name(QuantizationScheme::Format format);

// Some modules' scheme.
struct QuantizedGroup {
  std::string name = "group_0";
  ModuleTargets targets;
  QuantizationScheme scheme;
};

// Sparse weights of some modules.
struct SparseGroup {
  ModuleTargets targets;  // none: every module
  ModuleTargets ignore;
  double global_sparsity = 0.5;

  bool matches(const std::string& module, const std::string& class_name = "Linear") const;
};

struct CompressionConfig {
  std::vector<QuantizedGroup> groups;
  ModuleTargets not_quantized;          // `ignore`
  std::optional<SparseGroup> two_four;  // `sparse-24-bitmask`
  std::optional<SparseGroup> bitmask;   // `sparse-bitmask`
  // Said to be 2:4, stored in some other form: with their zeros, or as marlin-24. For reports; what a weight
  // is shows in its values.
  std::optional<SparseGroup> stated_two_four;

  // Nothing is compressed: to_json() is not to be written.
  bool empty() const { return groups.empty() && !two_four && !bitmask; }
  // The group that claims a module most specifically (by its name, by a pattern, by its class, as
  // compressed-tensors' match_targets orders them; the first of equals), or null.
  const QuantizedGroup* group_of(const std::string& module, const std::string& class_name = "Linear") const;
  bool is_two_four(const std::string& module, const std::string& class_name = "Linear") const {
    return two_four && two_four->matches(module, class_name);
  }
};

// From a whole config.json: its `quantization_config`, or the older `compression_config` and
// `sparsity_config`. None of them: an empty result. `file` begins every message. Throws Error{kUnsupported}
// that names the format, method or option that is not read here, Error{kCorruptData} for ill-formed values.
CompressionConfig parse_compression_config(const nlohmann::json& config,
                                           const std::string& file = "config.json");

// The value of the key `quantization_config`, as compressed-tensors 0.14.0.1 writes it; without 2:4 weights
// in a form of their own there is no `sparsity_config` in it.
nlohmann::json to_json(const CompressionConfig& config);

}  // namespace grille::checkpoint
