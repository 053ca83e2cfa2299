#include "grille/checkpoint/provenance.h"

#include <cmath>

#include "grille/base/error.h"

namespace grille::checkpoint {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

void put(json& object, const char* key, std::optional<double> value) {
  if (value && std::isfinite(*value)) object[key] = *value;
}

std::optional<double> number(const json& object, const char* key) {
  if (!object.contains(key)) return std::nullopt;
  return object.at(key).get<double>();
}

LayerProvenance parse_layer(const json& object) {
  return {object.at("name").get<std::string>(), object.value("sparsity", 0.0),
          number(object, "relative_error"), number(object, "damping")};
}

ProvenanceStep parse_step(const json& object) {
  ProvenanceStep step;
  step.command = object.at("command").get<std::string>();
  step.version = object.value("version", "");
  step.method = object.value("method", "");
  step.options = object.value("options", json::object());
  // get<>() would cast a number that does not fit; this refuses what is not a whole number.
  if (object.contains("seed")) step.seed = object.at("seed").get_ref<const json::number_unsigned_t&>();
  step.calibration_sha256 = object.value("calibration_sha256", "");
  step.perplexity_before = number(object, "perplexity_before");
  step.perplexity_after = number(object, "perplexity_after");
  for (const json& layer : object.value("layers", json::array())) step.layers.push_back(parse_layer(layer));
  return step;
}

json step_to_json(const ProvenanceStep& step) {
  json result = {
      {"command", step.command}, {"version", step.version}, {"options", step.options}, {"seed", step.seed}};
  if (!step.method.empty()) result["method"] = step.method;
  if (!step.calibration_sha256.empty()) result["calibration_sha256"] = step.calibration_sha256;
  put(result, "perplexity_before", step.perplexity_before);
  put(result, "perplexity_after", step.perplexity_after);
  json layers = json::array();
  for (const LayerProvenance& layer : step.layers) {
    json entry = {{"name", layer.name}};
    put(entry, "sparsity", layer.sparsity);
    put(entry, "relative_error", layer.relative_error);
    put(entry, "damping", layer.damping);
    layers.push_back(std::move(entry));
  }
  if (!layers.empty()) result["layers"] = std::move(layers);
  return result;
}

}  // namespace

std::optional<Provenance> parse_provenance(const json& config, const std::string& file) {
  if (!config.is_object() || !config.contains("grille") || config.at("grille").is_null()) return std::nullopt;
  try {
    const json& object = config.at("grille");
    check(object.at("version") == json(kVersion), ErrorCode::kUnsupported,
          "{}: grille: written by a later version of this program", file);
    Provenance result;
    for (const json& step : object.at("steps")) result.steps.push_back(parse_step(step));
    return result;
  } catch (const json::exception&) {
    fail(ErrorCode::kCorruptData, "{}: grille: not a provenance as this program writes it", file);
  }
}

json to_json(const Provenance& provenance) {
  json steps = json::array();
  for (const ProvenanceStep& step : provenance.steps) steps.push_back(step_to_json(step));
  return {{"version", kVersion}, {"steps", std::move(steps)}};
}

}  // namespace grille::checkpoint
