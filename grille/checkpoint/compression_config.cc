#include "grille/checkpoint/compression_config.h"

#include <array>

#include <nlohmann/json.hpp>

#include "grille/base/error.h"
#include "grille/checkpoint/quote_name.h"

namespace grille::checkpoint {
namespace {

using nlohmann::json;

constexpr std::string_view kDense = "dense";
constexpr std::string_view kFloatQuantized = "float-quantized";
constexpr std::string_view kSparse24Bitmask = "sparse-24-bitmask";
constexpr std::string_view kMixedPrecision = "mixed-precision";
constexpr std::string_view kWriterVersion = "0.14.0.1";

// All formats there are: a name outside this list is an error of its own, never looked up anywhere.
constexpr std::array<std::string_view, 12> kFormats = {
    kDense,          "sparse-bitmask",       kSparse24Bitmask,       "int-quantized",
    kFloatQuantized, "naive-quantized",      "pack-quantized",       "marlin-24",
    kMixedPrecision, "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"};

// Typed access to one JSON object; every message names the file and the path to the value.
class Reader {
 public:
  Reader(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    check(object.is_object(), ErrorCode::kCorruptData, "{}: expected a JSON object", where_);
  }

  const std::string& where() const { return where_; }
  bool has(const char* key) const { return object_.contains(key) && !object_.at(key).is_null(); }
  const json& at(const char* key) const { return object_.at(key); }
  const json& object() const { return object_; }
  Reader child(const char* key) const { return {object_.at(key), fmt::format("{}: {}", where_, key)}; }

  std::string text(const char* key, std::string_view otherwise) const {
    if (!has(key)) return std::string(otherwise);
    check(at(key).is_string(), ErrorCode::kCorruptData, "{}: {} is not a string", where_, key);
    return at(key).get<std::string>();
  }

  bool flag(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    check(at(key).is_boolean(), ErrorCode::kCorruptData, "{}: {} is not true or false", where_, key);
    return at(key).get<bool>();
  }

  double number(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    check(at(key).is_number(), ErrorCode::kCorruptData, "{}: {} is not a number", where_, key);
    return at(key).get<double>();
  }

  ModuleTargets targets(const char* key) const {
    if (!has(key)) return {};
    check(at(key).is_array(), ErrorCode::kCorruptData, "{}: {} is not a list", where_, key);
    std::vector<std::string> list;
    for (const json& target : at(key)) {
      check(target.is_string(), ErrorCode::kCorruptData, "{}: {} holds something else than strings", where_,
            key);
      list.push_back(target.get<std::string>());
    }
    try {
      return ModuleTargets(std::move(list));
    } catch (const Error& error) {
      fail(error.code(), "{}: {}: {}", where_, key, error.what());
    }
  }

  // A format's name; the closed list is checked here.
  std::string format(std::string_view otherwise) const {
    std::string name = text("format", otherwise);
    for (const std::string_view known : kFormats) {
      if (known == name) return name;
    }
    fail(ErrorCode::kUnsupported, "{}: the format {} is unknown", where_, quote_name(name));
  }

 private:
  const json& object_;
  std::string where_;
};

[[noreturn]] void fail_unsupported(const Reader& reader, const std::string& what) {
  fail(ErrorCode::kUnsupported, "{}: {} not supported", reader.where(), what);
}

void check_fp8(const Reader& arguments) {
  const double bits = arguments.number("num_bits", 8);
  const std::string type = arguments.text("type", "int");
  if (bits != 8 || type != "float") {
    fail_unsupported(arguments, fmt::format("{}-bit {} is", bits, quote_name(type)));
  }
  if (!arguments.flag("symmetric", true)) fail_unsupported(arguments, "asymmetric quantization is");
}

Fp8Group parse_group(const std::string& name, const json& value, const std::string& where,
                     const std::string& format) {
  check(!value.is_array(), ErrorCode::kUnsupported, "{}: a preset scheme by name is not supported", where);
  const Reader group(value, where);
  const std::string group_format = group.format(format);
  if (group_format != kFloatQuantized)
    fail_unsupported(group, fmt::format("the format {} is", quote_name(group_format)));
  check(group.has("weights"), ErrorCode::kUnsupported, "{}: a group without weights is not supported", where);

  Fp8Group result;
  result.name = name;
  result.targets = group.targets("targets");
  const Reader weights = group.child("weights");
  check_fp8(weights);
  const std::string strategy = weights.text("strategy", "tensor");
  if (strategy != "channel" && strategy != "tensor") {
    fail_unsupported(weights, fmt::format("the strategy {} is", quote_name(strategy)));
  }
  result.scale = strategy == "channel" ? Fp8Group::Scale::kChannel : Fp8Group::Scale::kTensor;
  if (weights.flag("dynamic", false)) fail_unsupported(weights, "dynamic is");

  if (group.has("output_activations")) fail_unsupported(group, "output_activations are");
  result.dynamic_activations = group.has("input_activations");
  if (result.dynamic_activations) {
    const Reader inputs = group.child("input_activations");
    check_fp8(inputs);
    if (inputs.has("dynamic") && inputs.at("dynamic").is_string())
      fail_unsupported(inputs, "local scales are");
    if (!inputs.flag("dynamic", false))
      fail_unsupported(inputs, "static activation scales (input_scale) are");
    const std::string input_strategy = inputs.text("strategy", "tensor");
    if (input_strategy != "token")
      fail_unsupported(inputs, fmt::format("the strategy {} is", quote_name(input_strategy)));
  }
  return result;
}

void parse_quantization(const Reader& reader, CompressionConfig& result) {
  const std::string method = reader.text("quant_method", "compressed-tensors");
  if (method != "compressed-tensors")
    fail_unsupported(reader, fmt::format("the method {} is", quote_name(method)));
  if (reader.has("kv_cache_scheme")) fail_unsupported(reader, "kv_cache_scheme is");
  if (reader.has("transform_config") && !reader.at("transform_config").empty()) {
    fail_unsupported(reader, "transform_config is");
  }
  const std::string format = reader.format(kDense);
  if (!reader.has("config_groups")) {
    if (format != kDense)
      fail_unsupported(reader, fmt::format("the format {} without config_groups is", quote_name(format)));
    return;
  }
  const Reader groups = reader.child("config_groups");
  result.fp8_ignore = reader.targets("ignore");
  for (const auto& [name, group] : groups.object().items()) {
    const std::string where = fmt::format("{}: {}", groups.where(), quote_name(name));
    result.fp8_groups.push_back(parse_group(name, group, where, format));
  }
}

void parse_sparsity(const Reader& reader, CompressionConfig& result) {
  if (reader.object().empty()) return;  // how compressed-tensors says "none"
  const std::string format = reader.format(kDense);
  if (format == kDense) return;
  if (format != kSparse24Bitmask)
    fail_unsupported(reader, fmt::format("the format {} is", quote_name(format)));
  const std::string structure = reader.text("sparsity_structure", "2:4");
  check(structure == "2:4", ErrorCode::kCorruptData, "{}: the format {} has sparsity_structure 2:4, not {}",
        reader.where(), format, quote_name(structure));
  result.two_four = {reader.targets("targets"), reader.targets("ignore"),
                     reader.number("global_sparsity", 0.5)};
}

// quantize arguments as compressed-tensors' model dumps them.
json quantization_arguments(std::string_view strategy, bool dynamic) {
  return {{"actorder", nullptr},
          {"block_structure", nullptr},
          {"dynamic", dynamic},
          {"group_size", nullptr},
          {"num_bits", 8},
          {"observer", dynamic ? json(nullptr) : json("minmax")},
          {"observer_kwargs", json::object()},
          {"scale_dtype", nullptr},
          {"strategy", strategy},
          {"symmetric", true},
          {"type", "float"},
          {"zp_dtype", nullptr}};
}

}  // namespace

const Fp8Group* CompressionConfig::fp8_group(const std::string& module, const std::string& class_name) const {
  if (fp8_ignore.matches(module, class_name)) return nullptr;
  const Fp8Group* best = nullptr;
  ModuleTargets::Match best_match = ModuleTargets::Match::kNone;
  for (const Fp8Group& group : fp8_groups) {
    const ModuleTargets::Match match = group.targets.match(module, class_name);
    if (match <= best_match) continue;
    best = &group;
    best_match = match;
  }
  return best;
}

bool CompressionConfig::is_two_four(const std::string& module, const std::string& class_name) const {
  return two_four && two_four->targets.matches(module, class_name) &&
         !two_four->ignore.matches(module, class_name);
}

CompressionConfig parse_compression_config(const json& config, const std::string& file) {
  const Reader top(config, file);
  CompressionConfig result;
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (!top.has(key)) continue;
    const Reader reader = top.child(key);
    parse_quantization(reader, result);
    if (reader.has("sparsity_config")) parse_sparsity(reader.child("sparsity_config"), result);
    return result;
  }
  if (top.has("sparsity_config")) parse_sparsity(top.child("sparsity_config"), result);
  return result;
}

json to_json(const CompressionConfig& config) {
  json result = {{"quant_method", "compressed-tensors"},
                 {"transform_config", json::object()},
                 {"version", kWriterVersion}};
  if (!config.fp8_groups.empty()) {
    json groups = json::object();
    for (const Fp8Group& group : config.fp8_groups) {
      const bool channel = group.scale == Fp8Group::Scale::kChannel;
      groups[group.name] = {
          {"format", kFloatQuantized},
          {"input_activations",
           group.dynamic_activations ? quantization_arguments("token", true) : json(nullptr)},
          {"output_activations", nullptr},
          {"targets", group.targets.list()},
          {"weights", quantization_arguments(channel ? "channel" : "tensor", false)}};
    }
    result["config_groups"] = std::move(groups);
    result["format"] = kFloatQuantized;
    result["global_compression_ratio"] = nullptr;
    result["ignore"] = config.fp8_ignore.list();
    result["kv_cache_scheme"] = nullptr;
    result["quantization_status"] = "compressed";
  }
  if (config.two_four) {
    result["sparsity_config"] = {{"format", kSparse24Bitmask},
                                 {"global_sparsity", config.two_four->global_sparsity},
                                 {"ignore", config.two_four->ignore.list()},
                                 {"registry_requires_subclass", false},
                                 {"sparsity_structure", "2:4"},
                                 {"targets", config.two_four->targets.list()}};
  }
  return result;
}

}  // namespace grille::checkpoint
