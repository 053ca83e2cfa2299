// The part of a config.json that says how weights are compressed: compressed-tensors' `quantization_config`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "grille/checkpoint/module_targets.h"

namespace grille::checkpoint {

// FP8 weights (`float-quantized`) of some modules.
struct Fp8Group {
  enum class Scale {
    kChannel,  // one a row
    kTensor,   // one for all rows
  };
  std::string name = "group_0";
  ModuleTargets targets;
  Scale scale = Scale::kChannel;
  bool dynamic_activations = true;  // inputs are rounded to FP8 too, with a scale per token
};

// 2:4 weights (`sparse-24-bitmask`) of some modules.
struct TwoFourGroup {
  ModuleTargets targets;
  ModuleTargets ignore;
  double global_sparsity = 0.5;
};

struct CompressionConfig {
  std::vector<Fp8Group> fp8_groups;
  ModuleTargets fp8_ignore;
  std::optional<TwoFourGroup> two_four;

  // Nothing is compressed: to_json() is not to be written.
  bool empty() const { return fp8_groups.empty() && !two_four; }
  // The group that claims a module most specifically (by its name, by a pattern, by its class, as
  // compressed-tensors' match_targets orders them; the first of equals), or null.
  const Fp8Group* fp8_group(const std::string& module, const std::string& class_name = "Linear") const;
  bool is_two_four(const std::string& module, const std::string& class_name = "Linear") const;
};

// From a whole config.json: its `quantization_config`, or the older `compression_config` and
// `sparsity_config`. None of them: an empty result. `file` begins every message. Throws Error{kUnsupported}
// that names the format, method or option that is not read here, Error{kCorruptData} for ill-formed values.
CompressionConfig parse_compression_config(const nlohmann::json& config,
                                           const std::string& file = "config.json");

// The value of the key `quantization_config`, as compressed-tensors 0.14.0.1 writes it; without 2:4 weights
// there is no `sparsity_config` in it.
nlohmann::json to_json(const CompressionConfig& config);

}  // namespace grille::checkpoint
