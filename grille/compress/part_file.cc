#include "grille/compress/part_file.h"

#include <nlohmann/json.hpp>

#include "grille/base/error.h"
#include "grille/checkpoint/compressed_tensors.h"
#include "grille/checkpoint/safetensors_writer.h"
#include "grille/tensors/views.h"

namespace grille::compress {
namespace {

using nlohmann::json;

constexpr const char* kReportsKey = "layers";
constexpr const char* kReconstructionKey = "reconstruction";
constexpr const char* kCompressionKey = "quantization_config";

json to_json(const LayerReport& report) {
  json object = {{"name", report.name}, {"sparsity", report.sparsity}, {"seconds", report.seconds}};
  if (report.relative_error) object["relative_error"] = *report.relative_error;
  if (report.damping) object["damping"] = *report.damping;
  if (report.saturated > 0) object["saturated"] = report.saturated;
  if (report.swaps) object["swaps"] = *report.swaps;
  return object;
}

checkpoint::Encoding part_encoding(const tensors::Weight& weight) {
  const bool two_four = weight.format == tensors::WeightFormat::kTwoFour;
  return two_four ? checkpoint::Encoding::kTwoFour : checkpoint::Encoding::kPlain;
}

template <typename Number>
std::optional<Number> optional_number(const json& object, const char* key) {
  return object.contains(key) ? std::optional<Number>(object.at(key).get<Number>()) : std::nullopt;
}

LayerReport from_json(const json& object) {
  return {.name = object.at("name").get<std::string>(),
          .sparsity = object.at("sparsity").get<double>(),
          .relative_error = optional_number<double>(object, "relative_error"),
          .damping = optional_number<double>(object, "damping"),
          .saturated = object.value("saturated", std::int64_t{0}),
          .seconds = object.at("seconds").get<double>(),
          .swaps = optional_number<std::int64_t>(object, "swaps")};
}

}  // namespace

void write_part(const std::filesystem::path& path, const std::map<std::string, tensors::Weight>& weights,
                const std::map<std::string, at::Tensor>& tensors, const std::vector<LayerReport>& reports,
                const std::optional<Reconstruction>& reconstruction) {
  std::vector<checkpoint::TensorSpec> specs;
  ModuleForms forms;
  for (const auto& [module, weight] : weights) {
    const checkpoint::LinearForm form = checkpoint::form_of(weight, part_encoding(weight));
    const auto more = checkpoint::linear_tensors(module, form);
    specs.insert(specs.end(), more.begin(), more.end());
    forms.emplace(module, form);
  }
  for (const auto& [name, tensor] : tensors) {
    specs.push_back({name, tensors::dtype_of(tensor), tensor.sizes().vec()});
  }
  json layers = json::array();
  for (const LayerReport& report : reports) layers.push_back(to_json(report));
  const std::string compression = checkpoint::to_json(compression_for(forms)).dump();
  std::map<std::string, std::string> metadata = {{kReportsKey, layers.dump()},
                                                 {kCompressionKey, compression}};
  if (reconstruction) {
    metadata[kReconstructionKey] = json{
        {"error_before", reconstruction->error_before},
        {"error", reconstruction->error},
        {"epochs",
         reconstruction->epochs}}.dump();
  }
  checkpoint::SafetensorsWriter writer(path, specs, metadata);
  for (const auto& [module, weight] : weights) {
    checkpoint::write_linear(writer, module, weight, part_encoding(weight));
  }
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor whole = tensor.contiguous();
    writer.write(name, {static_cast<const std::byte*>(whole.const_data_ptr()), whole.nbytes()});
  }
  writer.finish();
}

PartFile::PartFile(const std::filesystem::path& path) : path_(path), source_(path) {
  const auto stated = source_.metadata().find(kCompressionKey);
  check(stated != source_.metadata().end(), ErrorCode::kCorruptData,
        "{}: is not a finished block of an earlier run; start anew with --overwrite", path_.string());
  const json config = {{kCompressionKey, json::parse(stated->second, nullptr, false)}};
  compression_ = checkpoint::parse_compression_config(config, path_.string());
  forms_ = forms_in(source_, compression_);
}

tensors::Weight PartFile::weight(const std::string& module) const {
  const auto form = forms_.find(module);
  check(form != forms_.end(), ErrorCode::kNotFound, "{}: is not in this part", source_.locate(module));
  return checkpoint::read_linear(source_, compression_, module, form->second.rows, form->second.cols,
                                 class_of(module));
}

std::vector<LayerReport> PartFile::reports() const {
  const auto found = source_.metadata().find(kReportsKey);
  check(found != source_.metadata().end(), ErrorCode::kCorruptData,
        "{}: is not a finished block of an earlier run; start anew with --overwrite", path_.string());
  std::vector<LayerReport> reports;
  try {
    for (const json& object : json::parse(found->second)) reports.push_back(from_json(object));
  } catch (const json::exception&) {
    fail(ErrorCode::kCorruptData, "{}: the reports of its layers are damaged; start anew with --overwrite",
         path_.string());
  }
  return reports;
}

std::optional<Reconstruction> PartFile::reconstruction() const {
  const auto found = source_.metadata().find(kReconstructionKey);
  if (found == source_.metadata().end()) return std::nullopt;
  try {
    const json object = json::parse(found->second);
    return Reconstruction{object.at("error_before").get<double>(), object.at("error").get<double>(),
                          object.at("epochs").get<std::int64_t>()};
  } catch (const json::exception&) {
    fail(ErrorCode::kCorruptData,
         "{}: the report of its reconstruction is damaged; start anew with --overwrite", path_.string());
  }
}

}  // namespace grille::compress
