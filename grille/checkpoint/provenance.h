// How a checkpoint came to be, stored in its config.json under the key `grille`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace grille::checkpoint {

struct LayerProvenance {
  std::string name;
  double sparsity = 0.0;
  std::optional<double> relative_error;  // sqrt(tr(D H D^T) / tr(W H W^T))
  std::optional<double> damping;
};

// One command that changed the weights. No times, hosts or paths: the same input gives the same bytes.
struct ProvenanceStep {
  std::string command;  // "prune", "quantize", "convert", ...
  std::string version;  // of the program
  std::string method;   // "sparsegpt", ...; empty where there is none
  nlohmann::json options = nlohmann::json::object();
  std::uint64_t seed = 0;
  std::string calibration_sha256;  // of the calibration files; empty: none was used
  std::vector<LayerProvenance> layers;
  std::optional<double> perplexity_before;
  std::optional<double> perplexity_after;
};

struct Provenance {
  std::vector<ProvenanceStep> steps;  // oldest first
};

// Nothing if the config has no such key. Throws Error{kCorruptData} for ill-typed values, Error{kUnsupported}
// for a later version of the form.
std::optional<Provenance> parse_provenance(const nlohmann::json& config,
                                           const std::string& file = "config.json");

// The value of the key `grille`. Numbers that are not finite are left out: JSON has none.
nlohmann::json to_json(const Provenance& provenance);

}  // namespace grille::checkpoint
