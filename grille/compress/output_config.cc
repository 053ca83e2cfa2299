#include "grille/compress/output_config.h"

#include <vector>

#include "grille/base/error.h"
#include "grille/checkpoint/provenance.h"

namespace grille::compress {
namespace {

using checkpoint::LinearForm;
using checkpoint::ModuleTargets;
using nlohmann::json;

constexpr const char* kEmbedding = "model.embed_tokens";
constexpr const char* kHead = "lm_head";

// The embedding is looked up, and the head's inputs decide over tokens: neither has its inputs rounded.
bool has_full_inputs(const std::string& module) { return module == kEmbedding || module == kHead; }

std::string command_name(const Options& options) {
  if (options.prune) return "prune";
  const bool quantizes =
      options.quantize != Quantization::kNone || options.quantize_embeddings != EmbeddingQuantization::kNone;
  return quantizes ? "quantize" : "convert";
}

}  // namespace

ModuleForms forms_in(const checkpoint::TensorSource& source) {
  ModuleForms forms;
  for (const auto& [name, info] : source.tensors()) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos || info.shape.size() != 2) continue;
    const std::string suffix = name.substr(dot);
    const bool two_four = suffix == ".compressed";
    if (!two_four && suffix != ".weight") continue;
    const std::string module = name.substr(0, dot);
    LinearForm form{two_four, info.shape[0], two_four ? info.shape[1] * 2 : info.shape[1], info.dtype,
                    std::nullopt};
    if (source.has(module + ".weight_scale")) form.scale_dtype = source.info(module + ".weight_scale").dtype;
    forms.emplace(module, form);
  }
  return forms;
}

checkpoint::CompressionConfig compression_for(const ModuleForms& forms) {
  std::vector<std::string> weight_only;    // FP8, inputs as they are
  std::vector<std::string> not_quantized;  // linear layers
  std::vector<std::string> not_two_four;
  bool quantized = false;
  bool two_four = false;
  double zeros = 0.0;
  double weights = 0.0;
  for (const auto& [module, form] : forms) {
    const bool fp8 = form.scale_dtype.has_value();
    if (fp8 && has_full_inputs(module)) weight_only.push_back(module);
    if (fp8 && !has_full_inputs(module)) quantized = true;
    if (!fp8 && module != kEmbedding) not_quantized.push_back(module);
    if (form.two_four) two_four = true;
    if (!form.two_four && module != kEmbedding) not_two_four.push_back(module);
    const double size = static_cast<double>(form.rows) * static_cast<double>(form.cols);
    if (module != kEmbedding && module != kHead) weights += size;
    if (form.two_four) zeros += size / 2;
  }
  // A tied head has no tensors of its own, but is a linear layer to the programs that read the config.
  if (!forms.contains(kHead)) {
    not_quantized.push_back(kHead);
    not_two_four.push_back(kHead);
  }
  checkpoint::CompressionConfig config;
  if (!weight_only.empty()) {
    config.fp8_groups.push_back(
        {"group_1", ModuleTargets(weight_only), checkpoint::Fp8Group::Scale::kChannel, false});
  }
  if (quantized) {
    config.fp8_groups.push_back(
        {"group_0", ModuleTargets({"Linear"}), checkpoint::Fp8Group::Scale::kChannel, true});
  }
  if (!config.fp8_groups.empty()) config.fp8_ignore = ModuleTargets(not_quantized);
  if (two_four) config.two_four = {ModuleTargets({"Linear"}), ModuleTargets(not_two_four), zeros / weights};
  return config;
}

json describe(const Options& options) {
  json object = {
      {"quantize", options.quantize == Quantization::kFp8Dynamic ? "fp8-dynamic" : "none"},
      {"quantize_embeddings", options.quantize_embeddings == EmbeddingQuantization::kFp8 ? "fp8" : "none"}};
  if (options.prune) {
    const PruneOptions& prune = *options.prune;
    object.update({{"pattern", prune.pattern.name()},
                   {"sparsity", prune.pattern.sparsity},
                   {"targets", prune.targets},
                   {"ignore", prune.ignore}});
    if (prune.method == Method::kSparseGpt) object["damping"] = prune.damping;
    if (method_needs_calibration(prune.method)) object["true_sequential"] = prune.true_sequential;
  }
  if (options.calibration_samples > 0) {
    object["samples"] = options.calibration_samples;
    object["context"] = options.calibration_context;
  }
  return object;
}

json output_config(const models::ModelFiles& files, const Options& options, const Report& report,
                   const ModuleForms& forms) {
  json config = files.hf_config;
  for (const char* key : {"quantization_config", "compression_config", "sparsity_config"}) config.erase(key);
  if (options.dtype) {
    config.erase("dtype");
    config["torch_dtype"] = std::string(dtype_name(*options.dtype));
  }
  const checkpoint::CompressionConfig compression = compression_for(forms);
  if (!compression.empty()) config["quantization_config"] = checkpoint::to_json(compression);

  checkpoint::Provenance provenance =
      checkpoint::parse_provenance(files.hf_config, files.path.string()).value_or(checkpoint::Provenance());
  checkpoint::ProvenanceStep step;
  step.command = command_name(options);
  step.version = GRILLE_VERSION;
  step.options = describe(options);
  step.seed = options.seed;
  step.calibration_sha256 = options.calibration_sha256;
  if (options.prune) {
    step.method = method_name(options.prune->method);
    for (const LayerReport& layer : report.layers) {
      step.layers.push_back({layer.name, layer.sparsity, layer.relative_error, layer.damping});
    }
  }
  provenance.steps.push_back(std::move(step));
  config["grille"] = checkpoint::to_json(provenance);
  return config;
}

}  // namespace grille::compress
