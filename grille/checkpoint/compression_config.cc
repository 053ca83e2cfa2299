#include "grille/checkpoint/compression_config.h"

#include <algorithm>
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
constexpr std::string_view kSparseBitmask = "sparse-bitmask";
constexpr std::string_view kIntQuantized = "int-quantized";
constexpr std::string_view kNaiveQuantized = "naive-quantized";
constexpr std::string_view kPackQuantized = "pack-quantized";
constexpr std::string_view kMarlin24 = "marlin-24";
constexpr std::string_view kMixedPrecision = "mixed-precision";

// All formats there are: a name outside this list is an error of its own, never looked up anywhere.
constexpr std::array<std::string_view, 12> kFormats = {
    kDense,          kSparseBitmask,         kSparse24Bitmask,       kIntQuantized,
    kFloatQuantized, kNaiveQuantized,        kPackQuantized,         kMarlin24,
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

using Scheme = QuantizationScheme;

// The largest group or block side; what is larger than a weight is refused with the weight.
constexpr double kLargestBlock = 1 << 24;

std::int64_t block_side(const Reader& reader, const json& value, const char* key) {
  const bool fits =
      value.is_number_integer() && value.get<double>() >= 1 && value.get<double>() <= kLargestBlock;
  check(fits, ErrorCode::kCorruptData, "{}: {} is not a positive number of weights", reader.where(), key);
  return value.get<std::int64_t>();
}

std::string number_name(const Reader& arguments) {
  return fmt::format("{}-bit {}", arguments.number("num_bits", 8), quote_name(arguments.text("type", "int")));
}

bool is_number(const Reader& arguments, int bits, std::string_view type) {
  return arguments.number("num_bits", 8) == bits && arguments.text("type", "int") == type;
}

// Format and number type; `naive-quantized` is either of the two plain ones.
void parse_numbers(const Reader& weights, const std::string& format, Scheme& scheme) {
  const bool fp8 = is_number(weights, 8, "float");
  const bool int8 = is_number(weights, 8, "int");
  const bool int4 = is_number(weights, 4, "int");
  const bool naive = format == kNaiveQuantized;
  if ((naive || format == kFloatQuantized) && fp8) {
    scheme.format = Scheme::Format::kFloat;
  } else if ((naive || format == kIntQuantized) && (int8 || int4)) {
    scheme.format = Scheme::Format::kInt;
  } else if (format == kPackQuantized && (int8 || int4)) {
    scheme.format = Scheme::Format::kPacked;
  } else if (format == kMarlin24 && (int8 || int4)) {
    scheme.format = Scheme::Format::kMarlin24;
  } else {
    fail_unsupported(weights, fmt::format("{} as {} is", number_name(weights), quote_name(format)));
  }
  scheme.bits = int4 ? 4 : 8;
  scheme.symmetric = weights.flag("symmetric", true);
  if (scheme.symmetric) return;
  if (fp8 || scheme.format == Scheme::Format::kMarlin24)
    fail_unsupported(weights, "asymmetric quantization is");
}

// [rows, columns]; older files have "128x128".
json block_sides(const Reader& weights) {
  json sides = weights.has("block_structure") ? weights.at("block_structure") : json();
  if (sides.is_string()) {
    std::string list = fmt::format("[{}]", sides.get<std::string>());
    std::replace(list.begin(), list.end(), 'x', ',');
    sides = json::parse(list, nullptr, false);
  }
  check(sides.is_array() && sides.size() == 2, ErrorCode::kCorruptData,
        "{}: block_structure is not two numbers", weights.where());
  return sides;
}

std::string implied_strategy(const Reader& weights) {
  if (weights.has("block_structure")) return "block";
  if (!weights.has("group_size")) return "tensor";
  return weights.number("group_size", 0) < 0 ? "channel" : "group";
}

void parse_strategy(const Reader& weights, Scheme& scheme) {
  const std::string strategy = weights.text("strategy", implied_strategy(weights));
  if (strategy == "channel") {
    scheme.strategy = Scheme::Strategy::kChannel;
  } else if (strategy == "tensor") {
    scheme.strategy = Scheme::Strategy::kTensor;
  } else if (strategy == "group") {
    check(weights.has("group_size"), ErrorCode::kCorruptData, "{}: the strategy group without group_size",
          weights.where());
    scheme.strategy = Scheme::Strategy::kGroup;
    scheme.block_cols = block_side(weights, weights.at("group_size"), "group_size");
  } else if (strategy == "block") {
    const json sides = block_sides(weights);
    scheme.strategy = Scheme::Strategy::kBlock;
    scheme.block_rows = block_side(weights, sides[0], "block_structure");
    scheme.block_cols = block_side(weights, sides[1], "block_structure");
  } else {
    fail_unsupported(weights, fmt::format("the strategy {} is", quote_name(strategy)));
  }
  const bool grouped = scheme.strategy == Scheme::Strategy::kGroup;
  const bool packed_any = scheme.strategy == Scheme::Strategy::kChannel || grouped;
  const bool marlin = scheme.format == Scheme::Format::kMarlin24;
  if ((marlin && (!packed_any || (grouped && scheme.block_cols != 128))) ||
      (scheme.format == Scheme::Format::kPacked && !packed_any)) {
    fail_unsupported(weights, fmt::format("the strategy {}{} with {} is", quote_name(strategy),
                                          grouped ? fmt::format(" of {}", scheme.block_cols) : "",
                                          format_name(scheme.format)));
  }
  const bool ordered = weights.has("actorder") && weights.at("actorder") != false;
  // "weight" ("static"): the order was used while rounding only, columns lie as they are.
  scheme.activation_order =
      ordered && weights.at("actorder") != "weight" && weights.at("actorder") != "static";
  if (scheme.activation_order && (!grouped || marlin)) fail_unsupported(weights, "actorder is");
}

void parse_inputs(const Reader& group, Scheme& scheme) {
  scheme.inputs = Scheme::Inputs::kFull;
  if (!group.has("input_activations")) return;
  const Reader inputs = group.child("input_activations");
  const bool fp8 = is_number(inputs, 8, "float");
  if (!fp8 && !is_number(inputs, 8, "int")) fail_unsupported(inputs, number_name(inputs) + " is");
  if (!inputs.flag("symmetric", true)) fail_unsupported(inputs, "asymmetric quantization is");
  if (inputs.has("dynamic") && inputs.at("dynamic").is_string()) fail_unsupported(inputs, "local scales are");
  if (!inputs.flag("dynamic", false)) fail_unsupported(inputs, "static activation scales (input_scale) are");
  const std::string strategy = inputs.text("strategy", "tensor");
  if (strategy == "token") {
    scheme.inputs = fp8 ? Scheme::Inputs::kFp8 : Scheme::Inputs::kInt8;
  } else if (strategy == "group" && fp8 && scheme.strategy == Scheme::Strategy::kBlock) {
    scheme.inputs = Scheme::Inputs::kFp8Groups;
  } else {
    fail_unsupported(inputs, fmt::format("the strategy {} is", quote_name(strategy)));
  }
}

QuantizedGroup parse_group(const std::string& name, const json& value, const std::string& where,
                           const std::string& format) {
  check(!value.is_array(), ErrorCode::kUnsupported, "{}: a preset scheme by name is not supported", where);
  const Reader group(value, where);
  const std::string group_format = group.format(format);
  check(group.has("weights"), ErrorCode::kUnsupported, "{}: a group without weights is not supported", where);
  QuantizedGroup result{name, group.targets("targets"), {}};
  const Reader weights = group.child("weights");
  parse_numbers(weights, group_format, result.scheme);
  parse_strategy(weights, result.scheme);
  if (weights.flag("dynamic", false)) fail_unsupported(weights, "dynamic is");
  if (group.has("output_activations")) fail_unsupported(group, "output_activations are");
  parse_inputs(group, result.scheme);
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
  result.not_quantized = reader.targets("ignore");
  for (const auto& [name, group] : groups.object().items()) {
    const std::string where = fmt::format("{}: {}", groups.where(), quote_name(name));
    result.groups.push_back(parse_group(name, group, where, format));
  }
}

void parse_sparsity(const Reader& reader, CompressionConfig& result) {
  if (reader.object().empty()) return;  // how compressed-tensors says "none"
  const std::string format = reader.format(kDense);
  const std::string structure =
      reader.text("sparsity_structure", format == kSparse24Bitmask ? "2:4" : "unstructured");
  const SparseGroup group{reader.targets("targets"), reader.targets("ignore"),
                          reader.number("global_sparsity", 0.5)};
  if (format == kSparse24Bitmask) {
    check(structure == "2:4", ErrorCode::kCorruptData, "{}: the format {} has sparsity_structure 2:4, not {}",
          reader.where(), format, quote_name(structure));
    result.two_four = group;
  } else if (format == kSparseBitmask) {
    result.bitmask = group;
  } else if (format != kDense) {
    fail_unsupported(reader, fmt::format("the format {} is", quote_name(format)));
  }
  if (structure == "2:4" && format != kSparse24Bitmask) result.stated_two_four = group;
}

}  // namespace

std::string_view format_name(QuantizationScheme::Format format) {
  switch (format) {
    case QuantizationScheme::Format::kFloat: return kFloatQuantized;
    case QuantizationScheme::Format::kInt: return kIntQuantized;
    case QuantizationScheme::Format::kPacked: return kPackQuantized;
    case QuantizationScheme::Format::kMarlin24: return kMarlin24;
  }
  return "";
}

bool SparseGroup::matches(const std::string& module, const std::string& class_name) const {
  return (targets.list().empty() || targets.matches(module, class_name)) &&
         !ignore.matches(module, class_name);
}

const QuantizedGroup* CompressionConfig::group_of(const std::string& module,
                                                  const std::string& class_name) const {
  if (not_quantized.matches(module, class_name)) return nullptr;
  const QuantizedGroup* best = nullptr;
  ModuleTargets::Match best_match = ModuleTargets::Match::kNone;
  for (const QuantizedGroup& group : groups) {
    const ModuleTargets::Match match = group.targets.match(module, class_name);
    if (match <= best_match) continue;
    best = &group;
    best_match = match;
  }
  return best;
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

}  // namespace grille::checkpoint
