// What the Python tests ask of grille/checkpoint. Exit status 2 and a line on stderr for an Error.
//
//   checkpoint_tool read DIR OUT MODULE:ROWSxCOLS...   read_linear() each module; OUT holds its dense values
//   as
//                                                      MODULE.weight (and MODULE.weight_scale)
//   checkpoint_tool write IN DIR compressed|dense [IGNORED...]
//                                    IN holds MODULE.weight (and .weight_scale); DIR gets model.safetensors
//                                    and the quantization_config of config.json; every weight is packed as
//                                    2:4 first
//   checkpoint_tool dequantize DIR OUT MODULE:ROWSxCOLS...
//                                                      as read, but OUT holds MODULE.weight in its scale's
//                                                      dtype
//   checkpoint_tool quantize IN DIR BITS GROUP plain|bitmask|packed|marlin-24
//                                    IN holds MODULE.weight; DIR gets model.safetensors with integers of BITS
//                                    bits, a scale for GROUP columns (0: a row), and config.json
//   checkpoint_tool dump FILE.gguf OUT                 every tensor as read() gives it
//   checkpoint_tool match FILE.json                    FILE is a list of [pattern, name]; prints 0 or 1 for
//   each
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "grille/base/error.h"
#include "grille/checkpoint/compressed_tensors.h"
#include "grille/checkpoint/gguf.h"
#include "grille/checkpoint/json_file.h"
#include "grille/checkpoint/name_pattern.h"
#include "grille/checkpoint/safetensors.h"
#include "grille/quantize/integer.h"

namespace {

using namespace grille;
using namespace grille::checkpoint;
using Arguments = std::vector<std::string>;
using Weights = std::map<std::string, tensors::Weight>;

void write_weights(const std::filesystem::path& path, const Weights& weights, Encoding encoding) {
  std::vector<TensorSpec> specs;
  for (const auto& [module, weight] : weights) {
    for (TensorSpec& spec : linear_tensors(module, form_of(weight, encoding)))
      specs.push_back(std::move(spec));
  }
  SafetensorsWriter writer(path, specs);
  for (const auto& [module, weight] : weights) write_linear(writer, module, weight, encoding);
  writer.finish();
}

Weights read_all(const Arguments& arguments) {
  const std::filesystem::path directory = arguments.at(0);
  const SafetensorsSource source(directory);
  const CompressionConfig config = parse_compression_config(read_json_file(directory / "config.json"));
  Weights weights;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::size_t colon = arguments[i].find(':');
    const std::size_t cross = arguments[i].find('x', colon);
    const std::string module = arguments[i].substr(0, colon);
    weights[module] = read_linear(source, config, module, std::stoll(arguments[i].substr(colon + 1)),
                                  std::stoll(arguments[i].substr(cross + 1)));
  }
  return weights;
}

void read(const Arguments& arguments) {
  write_weights(arguments.at(1), read_all(arguments), Encoding::kPlain);
}

void dequantize(const Arguments& arguments) {
  Weights weights = read_all(arguments);
  for (auto& [module, weight] : weights) weight = tensors::dequantized(weight);
  write_weights(arguments.at(1), weights, Encoding::kPlain);
}

void quantize_to(const Arguments& arguments) {
  const SafetensorsSource source(std::filesystem::path(arguments.at(0)));
  const std::filesystem::path directory = arguments.at(1);
  const int bits = std::stoi(arguments.at(2));
  const std::int64_t group = std::stoll(arguments.at(3));
  const std::map<std::string, Encoding> encodings = {{"plain", Encoding::kPlain},
                                                     {"bitmask", Encoding::kTwoFour},
                                                     {"packed", Encoding::kPacked},
                                                     {"marlin-24", Encoding::kMarlin24}};
  const Encoding encoding = encodings.at(arguments.at(4));
  Weights weights;
  CompressionConfig config;
  for (const auto& [name, info] : source.tensors()) {
    const std::string module = name.substr(0, name.rfind('.'));
    const tensors::Weight dense = tensors::compacted(tensors::dense_weight(source.read_tensor(name)));
    weights[module] = quantize::quantize_integer(dense, bits, group, dense.values.scalar_type(), module);
    LinearForm form = form_of(weights[module], encoding);
    if (encoding == Encoding::kPlain || encoding == Encoding::kTwoFour)
      form.inputs = QuantizationScheme::Inputs::kInt8;
    config.groups = {{"group_0", ModuleTargets({"Linear"}), scheme_of(form)}};
  }
  if (encoding == Encoding::kTwoFour) config.two_four = SparseGroup{ModuleTargets({"Linear"}), {}, 0.5};
  write_weights(directory / "model.safetensors", weights, encoding);
  write_file(directory / "config.json", nlohmann::json({{"quantization_config", to_json(config)}}).dump(2));
}

void write(const Arguments& arguments) {
  const SafetensorsSource source(std::filesystem::path(arguments.at(0)));
  const std::filesystem::path directory = arguments.at(1);
  const bool two_four = arguments.at(2) == "compressed";
  const ModuleTargets ignore({arguments.begin() + 3, arguments.end()});
  Weights weights;
  CompressionConfig config;
  if (two_four) config.two_four = SparseGroup{ModuleTargets({"Linear"}), ignore, 0.5};
  for (const auto& [name, info] : source.tensors()) {
    if (!name.ends_with(".weight")) continue;
    const std::string module = name.substr(0, name.size() - 7);
    tensors::Weight& weight = weights[module] =
        tensors::two_four_from_dense(source.read_tensor(name), source.locate(name));
    if (!source.has(module + ".weight_scale")) continue;
    weight.scale = source.read_tensor(module + ".weight_scale").reshape({weight.rows});
    if (!config.groups.empty()) continue;
    config.groups.push_back({"group_0", ModuleTargets({"Linear"}), {}});
    config.not_quantized = ignore;
  }
  write_weights(directory / "model.safetensors", weights, two_four ? Encoding::kTwoFour : Encoding::kPlain);
  write_file(directory / "config.json", nlohmann::json({{"quantization_config", to_json(config)}}).dump(2));
}

void dump(const Arguments& arguments) {
  const GgufSource source(std::filesystem::path(arguments.at(0)));
  std::vector<TensorSpec> specs;
  for (const auto& [name, info] : source.tensors()) specs.push_back({name, info.dtype, info.shape});
  SafetensorsWriter writer(arguments.at(1), specs);
  for (const auto& [name, info] : source.tensors()) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(info.bytes));
    source.read(name, bytes);
    writer.write(name, bytes);
  }
  writer.finish();
}

void match(const Arguments& arguments) {
  for (const auto& pair : read_json_file(arguments.at(0))) {
    fmt::print("{}\n",
               NamePattern(pair.at(0).get<std::string>()).matches(pair.at(1).get<std::string>()) ? 1 : 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)(const Arguments&)> commands = {
      {"read", read},   {"dequantize", dequantize},
      {"write", write}, {"quantize", quantize_to},
      {"dump", dump},   {"match", match}};
  const auto command = commands.find(argc > 1 ? argv[1] : "");
  if (command == commands.end()) {
    fmt::print(stderr, "usage: see checkpoint_tool.cc\n");
    return 1;
  }
  try {
    command->second({argv + 2, argv + argc});
  } catch (const grille::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "unexpected: {}\n", error.what());
    return 1;
  }
  return 0;
}
