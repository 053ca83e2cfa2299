#include "grille/compress/inspection.h"

#include <map>

#include <ATen/ops/adaptive_avg_pool2d.h>

#include "grille/base/interrupt.h"
#include "grille/compress/output_config.h"
#include "grille/prune/pattern.h"

namespace grille::compress {
namespace {

// The N:M pattern that the checkpoint's last pruning gave each layer.
std::map<std::string, prune::Pattern> recorded_patterns(
    const std::optional<checkpoint::Provenance>& provenance) {
  std::map<std::string, prune::Pattern> patterns;
  if (!provenance) return patterns;
  for (const checkpoint::ProvenanceStep& step : provenance->steps) {
    if (step.command != "prune" || !step.options.contains("pattern")) continue;
    const prune::Pattern pattern =
        prune::parse_pattern(step.options.at("pattern").get<std::string>(), std::nullopt);
    for (const checkpoint::LayerProvenance& layer : step.layers) patterns[layer.name] = pattern;
  }
  return patterns;
}

std::int64_t count_violations(const at::Tensor& nonzero, const prune::Pattern& pattern) {
  if (pattern.kind != prune::Pattern::Kind::kGroups || nonzero.size(1) % pattern.group != 0) return 0;
  const at::Tensor kept = nonzero.view({nonzero.size(0), -1, pattern.group}).sum(2);
  return kept.gt(pattern.keep).sum().item<std::int64_t>();
}

std::string format_name(const checkpoint::LinearForm& form) {
  if (form.two_four) return form.scale_dtype ? "sparse-24-bitmask+float-quantized" : "sparse-24-bitmask";
  return form.scale_dtype ? "float-quantized" : "dense";
}

LayerInspection inspect_layer(const models::ModelFiles& files, const std::string& name,
                              const checkpoint::LinearForm& form, const prune::Pattern* pattern) {
  const tensors::Weight weight =
      checkpoint::read_linear(*files.tensors, files.compression, name, form.rows, form.cols,
                              name == "model.embed_tokens" ? "Embedding" : "Linear");
  const at::Tensor nonzero = tensors::to_dense_values(weight).to(at::kFloat).ne(0);
  LayerInspection layer{name,
                        form.rows,
                        form.cols,
                        format_name(form),
                        std::string(dtype_name(form.dtype)),
                        weight.stored_bytes(),
                        0.0,
                        0,
                        {}};
  layer.sparsity = 1.0 - nonzero.sum().item<double>() / static_cast<double>(nonzero.numel());
  if (pattern != nullptr) layer.violations = count_violations(nonzero, *pattern);
  const at::Tensor density =
      at::adaptive_avg_pool2d(nonzero.to(at::kFloat).view({1, 1, form.rows, form.cols}),
                              {kDensitySide, kDensitySide})
          .contiguous();
  layer.density.assign(density.const_data_ptr<float>(), density.const_data_ptr<float>() + density.numel());
  return layer;
}

}  // namespace

Inspection inspect(const models::ModelFiles& files, Progress& progress) {
  Inspection inspection;
  inspection.architecture =
      files.hf_config.contains("architectures") && files.hf_config["architectures"].is_array() &&
              !files.hf_config["architectures"].empty() && files.hf_config["architectures"][0].is_string()
          ? files.hf_config["architectures"][0].get<std::string>()
          : files.config.family;
  inspection.file_bytes = files.tensors->file_bytes();
  inspection.provenance = checkpoint::parse_provenance(files.hf_config, files.path.string());
  const auto patterns = recorded_patterns(inspection.provenance);
  const ModuleForms forms = forms_in(*files.tensors);
  for (const auto& [name, info] : files.tensors->tensors()) {
    if (info.shape.size() == 1 && !name.ends_with("scale")) inspection.parameters += info.shape[0];
  }
  progress.start("inspecting", static_cast<std::int64_t>(forms.size()), "layers");
  std::int64_t done = 0;
  for (const auto& [name, form] : forms) {
    throw_if_interrupted();
    inspection.parameters += form.rows * form.cols;
    const auto pattern = patterns.find(name);
    inspection.layers.push_back(
        inspect_layer(files, name, form, pattern == patterns.end() ? nullptr : &pattern->second));
    progress.update(++done);
  }
  progress.finish();
  return inspection;
}

}  // namespace grille::compress
