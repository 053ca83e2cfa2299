#include "grille/compress/inspection.h"

#include <map>

#include <fmt/format.h>

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

std::string format_of(const checkpoint::TensorSource& source, const std::string& name,
                      const checkpoint::LinearForm& form) {
  std::string format;
  if (form.encoding == checkpoint::Encoding::kTwoFour) format = "sparse-24-bitmask";
  if (source.has(name + ".row_offsets")) format = "sparse-bitmask";
  if (!form.scale_dtype) return format.empty() ? "dense" : format;
  const std::string_view numbers = checkpoint::format_name(checkpoint::scheme_of(form).format);
  return format.empty() ? std::string(numbers) : fmt::format("{}+{}", format, numbers);
}

// Which weights are not 0. An integer with a zero point is 0 where it equals that.
at::Tensor nonzeros(const tensors::Weight& weight) {
  if (weight.zero_point.defined()) return tensors::to_dense_float(weight).ne(0);
  const at::Tensor values = tensors::to_dense_values(weight);
  return values.scalar_type() == at::kFloat8_e4m3fn ? values.to(at::kFloat).ne(0) : values.ne(0);
}

LayerInspection inspect_layer(const models::ModelFiles& files, const std::string& name,
                              const checkpoint::LinearForm& form, const prune::Pattern* pattern) {
  const tensors::Weight weight = tensors::compacted(
      checkpoint::read_linear(*files.tensors, files.compression, name, form.rows, form.cols, class_of(name)));
  const at::Tensor nonzero = nonzeros(weight);
  LayerInspection layer;
  layer.name = name;
  layer.rows = form.rows;
  layer.cols = form.cols;
  layer.format = format_of(*files.tensors, name, form);
  layer.dtype =
      form.dtype == DType::kInt8 ? fmt::format("int{}", form.bits) : std::string(dtype_name(form.dtype));
  for (const std::string& tensor : checkpoint::linear_tensor_names(*files.tensors, name))
    layer.stored_bytes += files.tensors->info(tensor).bytes;
  layer.two_four = weight.format == tensors::WeightFormat::kTwoFour;
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
  const prune::Pattern two_four = prune::parse_pattern("2:4", std::nullopt);
  const auto patterns = recorded_patterns(inspection.provenance);
  const ModuleForms forms = forms_in(*files.tensors, files.compression);
  for (const auto& [name, info] : files.tensors->tensors()) {
    if (info.shape.size() == 1 && !name.ends_with("scale")) inspection.parameters += info.shape[0];
  }
  progress.start("inspecting", static_cast<std::int64_t>(forms.size()), "layers");
  std::int64_t done = 0;
  for (const auto& [name, form] : forms) {
    throw_if_interrupted();
    inspection.parameters += form.rows * form.cols;
    const auto recorded = patterns.find(name);
    const std::optional<checkpoint::SparseGroup>& stated = files.compression.stated_two_four;
    const bool is_stated = stated && stated->matches(name, class_of(name));
    const prune::Pattern* pattern = recorded != patterns.end() ? &recorded->second
                                    : is_stated                ? &two_four
                                                               : nullptr;
    inspection.layers.push_back(inspect_layer(files, name, form, pattern));
    progress.update(++done);
  }
  progress.finish();
  return inspection;
}

}  // namespace grille::compress
