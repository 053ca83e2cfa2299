// quantization_config as compressed-tensors 0.14.0.1 dumps its models.
#include <set>

#include <nlohmann/json.hpp>

#include "grille/checkpoint/compression_config.h"

namespace grille::checkpoint {
namespace {

using nlohmann::json;
using Scheme = QuantizationScheme;

constexpr std::string_view kWriterVersion = "0.14.0.1";

std::string_view strategy_name(Scheme::Strategy strategy) {
  switch (strategy) {
    case Scheme::Strategy::kChannel: return "channel";
    case Scheme::Strategy::kTensor: return "tensor";
    case Scheme::Strategy::kGroup: return "group";
    case Scheme::Strategy::kBlock: return "block";
  }
  return "";
}

json arguments(std::string_view type, int bits, std::string_view strategy, bool dynamic) {
  return {{"actorder", nullptr},
          {"block_structure", nullptr},
          {"dynamic", dynamic},
          {"group_size", nullptr},
          {"num_bits", bits},
          {"observer", dynamic ? json(nullptr) : json("minmax")},
          {"observer_kwargs", json::object()},
          {"scale_dtype", nullptr},
          {"strategy", strategy},
          {"symmetric", true},
          {"type", type},
          {"zp_dtype", nullptr}};
}

json weight_arguments(const Scheme& scheme) {
  const bool is_float = scheme.format == Scheme::Format::kFloat;
  json result = arguments(is_float ? "float" : "int", scheme.bits, strategy_name(scheme.strategy), false);
  result["symmetric"] = scheme.symmetric;
  if (!scheme.symmetric) result["zp_dtype"] = "torch.int8";
  if (scheme.strategy == Scheme::Strategy::kGroup) result["group_size"] = scheme.block_cols;
  if (scheme.strategy == Scheme::Strategy::kBlock)
    result["block_structure"] = {scheme.block_rows, scheme.block_cols};
  if (scheme.activation_order) result["actorder"] = "group";
  return result;
}

json input_arguments(const Scheme& scheme) {
  switch (scheme.inputs) {
    case Scheme::Inputs::kFull: return nullptr;
    case Scheme::Inputs::kFp8: return arguments("float", 8, "token", true);
    case Scheme::Inputs::kInt8: return arguments("int", 8, "token", true);
    case Scheme::Inputs::kFp8Groups: {
      json result = arguments("float", 8, "group", true);
      result["group_size"] = scheme.block_cols;
      return result;
    }
  }
  return nullptr;
}

json sparsity(std::string_view format, std::string_view structure, const SparseGroup& group) {
  return {{"format", format},
          {"global_sparsity", group.global_sparsity},
          {"ignore", group.ignore.list()},
          {"registry_requires_subclass", false},
          {"sparsity_structure", structure},
          {"targets", group.targets.list()}};
}

}  // namespace

json to_json(const CompressionConfig& config) {
  json result = {{"quant_method", "compressed-tensors"},
                 {"transform_config", json::object()},
                 {"version", kWriterVersion}};
  if (!config.groups.empty()) {
    json groups = json::object();
    std::set<std::string_view> formats;
    for (const QuantizedGroup& group : config.groups) {
      formats.insert(format_name(group.scheme.format));
      groups[group.name] = {{"format", format_name(group.scheme.format)},
                            {"input_activations", input_arguments(group.scheme)},
                            {"output_activations", nullptr},
                            {"targets", group.targets.list()},
                            {"weights", weight_arguments(group.scheme)}};
    }
    result["config_groups"] = std::move(groups);
    result["format"] = formats.size() == 1 ? *formats.begin() : std::string_view("mixed-precision");
    result["global_compression_ratio"] = nullptr;
    result["ignore"] = config.not_quantized.list();
    result["kv_cache_scheme"] = nullptr;
    result["quantization_status"] = "compressed";
  }
  if (config.two_four) {
    result["sparsity_config"] = sparsity("sparse-24-bitmask", "2:4", *config.two_four);
  } else if (config.bitmask) {
    result["sparsity_config"] = sparsity("sparse-bitmask", "unstructured", *config.bitmask);
  }
  return result;
}

}  // namespace grille::checkpoint
