#include "grille/compress/output_config.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/checkpoint/provenance.h"

namespace grille::compress {
namespace {

using checkpoint::LinearForm;
using checkpoint::ModuleTargets;
using nlohmann::json;

constexpr const char* kEmbedding = "model.embed_tokens";
constexpr const char* kHead = "lm_head";

using checkpoint::Encoding;
using checkpoint::QuantizationScheme;
using Inputs = checkpoint::QuantizationScheme::Inputs;

// The embedding is looked up, and the head's inputs decide over tokens: neither has its inputs rounded.
bool has_full_inputs(const std::string& module) { return module == kEmbedding || module == kHead; }

// What a quantized weight multiplies: what the run asks for, else what the source says.
Inputs inputs_of(const models::ModelFiles& files, const Options& options, const std::string& module) {
  if (has_full_inputs(module)) return Inputs::kFull;
  switch (options.quantize) {
    case Quantization::kFp8Dynamic: return Inputs::kFp8;
    case Quantization::kInt8Dynamic: return Inputs::kInt8;
    case Quantization::kInt4: return Inputs::kFull;
    case Quantization::kNone: break;
  }
  const checkpoint::QuantizedGroup* group = files.compression.group_of(module);
  return group == nullptr ? Inputs::kFull : group->scheme.inputs;
}

// The scheme of most linear layers is claimed by their class, modules of others by their names.
void add_groups(const std::map<QuantizationScheme, std::vector<std::string>>& schemes,
                checkpoint::CompressionConfig& config) {
  const auto layers = [](const std::vector<std::string>& modules) {
    return std::count_if(modules.begin(), modules.end(), [](const auto& m) { return !has_full_inputs(m); });
  };
  const auto main = std::max_element(schemes.begin(), schemes.end(), [&](const auto& a, const auto& b) {
    return layers(a.second) < layers(b.second);
  });
  int number = 1;
  for (auto it = schemes.begin(); it != schemes.end(); ++it) {
    std::vector<std::string> targets = it->second;
    const bool by_class = it == main && layers(targets) > 0;
    if (by_class) {
      std::erase_if(targets, [](const std::string& module) { return module != kEmbedding; });
      targets.insert(targets.begin(), "Linear");
    }
    config.groups.push_back({by_class ? "group_0" : fmt::format("group_{}", number++),
                             ModuleTargets(std::move(targets)), it->first});
  }
}

std::string command_name(const Options& options) {
  if (options.prune) return "prune";
  const bool quantizes =
      options.quantize != Quantization::kNone || options.quantize_embeddings != EmbeddingQuantization::kNone;
  return quantizes ? "quantize" : "convert";
}

}  // namespace

std::string class_of(const std::string& module) { return module == kEmbedding ? "Embedding" : "Linear"; }

ModuleForms forms_in(const checkpoint::TensorSource& source, const checkpoint::CompressionConfig& config) {
  ModuleForms forms;
  for (const auto& [module, shape] : checkpoint::modules_in(source)) {
    forms.emplace(module,
                  checkpoint::stored_form(source, config, module, shape[0], shape[1], class_of(module)));
  }
  return forms;
}

LinearForm final_form(const models::ModelFiles& files, const Options& options, const std::string& module,
                      LinearForm form) {
  if (form.scale_dtype) form.inputs = inputs_of(files, options, module);
  const bool weight_only_integers = form.dtype == DType::kInt8 && form.inputs != Inputs::kInt8;
  if (!weight_only_integers) {
    if (options.format == OutputFormat::kDense) form.encoding = Encoding::kPlain;
    return form;
  }
  const bool marlin = options.format == OutputFormat::kMarlin24 && form.two_four();
  check(!marlin || checkpoint::fits_marlin_24(form), ErrorCode::kInvalidArgument,
        "--format marlin-24: {} is [{}, {}] with {}; marlin-24 holds multiples of 64 rows and 32 columns, "
        "with a "
        "scale for each row or for 128 columns",
        module, form.rows, form.cols,
        form.blocks ? fmt::format("a scale for {} columns", form.block_cols) : "a scale for each row");
  form.encoding = marlin ? Encoding::kMarlin24 : Encoding::kPacked;
  if (marlin) form.scale_dtype = DType::kFloat16;
  return form;
}

checkpoint::CompressionConfig compression_for(const ModuleForms& forms) {
  std::map<QuantizationScheme, std::vector<std::string>> schemes;
  std::vector<std::string> not_quantized;  // linear layers
  std::vector<std::string> not_two_four;
  bool two_four = false;
  double zeros = 0.0;
  double weights = 0.0;
  for (const auto& [module, form] : forms) {
    const bool bitmask = form.encoding == Encoding::kTwoFour;
    if (form.scale_dtype) schemes[checkpoint::scheme_of(form)].push_back(module);
    if (!form.scale_dtype && module != kEmbedding) not_quantized.push_back(module);
    two_four = two_four || bitmask;
    if (!bitmask && module != kEmbedding) not_two_four.push_back(module);
    const double size = static_cast<double>(form.rows) * static_cast<double>(form.cols);
    if (module != kEmbedding && module != kHead) weights += size;
    if (bitmask) zeros += size / 2;
  }
  // A tied head has no tensors of its own, but is a linear layer to the programs that read the config.
  if (!forms.contains(kHead)) {
    not_quantized.push_back(kHead);
    not_two_four.push_back(kHead);
  }
  checkpoint::CompressionConfig config;
  add_groups(schemes, config);
  if (!config.groups.empty()) config.not_quantized = ModuleTargets(not_quantized);
  if (two_four) config.two_four = {ModuleTargets({"Linear"}), ModuleTargets(not_two_four), zeros / weights};
  return config;
}

json describe(const Options& options) {
  json object = {
      {"quantize", quantization_name(options.quantize)},
      {"quantize_embeddings", options.quantize_embeddings == EmbeddingQuantization::kFp8 ? "fp8" : "none"}};
  if (options.quantize == Quantization::kInt4) object["group_size"] = options.group_size;
  if (options.prune) {
    const PruneOptions& prune = *options.prune;
    object.update({{"pattern", prune.pattern.name()},
                   {"sparsity", prune.pattern.sparsity},
                   {"targets", prune.targets},
                   {"ignore", prune.ignore}});
    if (const auto damping = damping_of(prune)) object["damping"] = *damping;
    if (prune.refine != Refine::kNone) object["refine"] = refine_name(prune.refine);
    if (prune.reconstruct)
      object["reconstruct"] = {{"epochs", prune.reconstruct->epochs}, {"rate", prune.reconstruct->rate}};
    if (needs_calibration(prune)) object["true_sequential"] = prune.true_sequential;
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
