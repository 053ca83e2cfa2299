// What the Python tests ask of grille/checkpoint. Exit status 2 and a line on stderr for an Error.
//
//   checkpoint_tool read DIR OUT MODULE:ROWSxCOLS...   read_linear() each module; OUT holds its dense values
//   as
//                                                      MODULE.weight (and MODULE.weight_scale)
//   checkpoint_tool write IN DIR compressed|dense [IGNORED...]
//                                    IN holds MODULE.weight (and .weight_scale); DIR gets model.safetensors
//                                    and the quantization_config of config.json; every weight is packed as
//                                    2:4 first
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

namespace {

using namespace grille;
using namespace grille::checkpoint;
using Arguments = std::vector<std::string>;
using Weights = std::map<std::string, tensors::Weight>;

void write_weights(const std::filesystem::path& path, const Weights& weights, bool two_four) {
  std::vector<TensorSpec> specs;
  for (const auto& [module, weight] : weights) {
    for (TensorSpec& spec : linear_tensors(module, form_of(weight, two_four)))
      specs.push_back(std::move(spec));
  }
  SafetensorsWriter writer(path, specs);
  for (const auto& [module, weight] : weights) write_linear(writer, module, weight, two_four);
  writer.finish();
}

void read(const Arguments& arguments) {
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
  write_weights(arguments.at(1), weights, false);
}

void write(const Arguments& arguments) {
  const SafetensorsSource source(std::filesystem::path(arguments.at(0)));
  const std::filesystem::path directory = arguments.at(1);
  const bool two_four = arguments.at(2) == "compressed";
  const ModuleTargets ignore({arguments.begin() + 3, arguments.end()});
  Weights weights;
  CompressionConfig config;
  if (two_four) config.two_four = TwoFourGroup{ModuleTargets({"Linear"}), ignore, 0.5};
  for (const auto& [name, info] : source.tensors()) {
    if (!name.ends_with(".weight")) continue;
    const std::string module = name.substr(0, name.size() - 7);
    tensors::Weight& weight = weights[module] =
        tensors::two_four_from_dense(source.read_tensor(name), source.locate(name));
    if (!source.has(module + ".weight_scale")) continue;
    weight.scale = source.read_tensor(module + ".weight_scale").reshape({weight.rows});
    if (!config.fp8_groups.empty()) continue;
    config.fp8_groups.push_back({"group_0", ModuleTargets({"Linear"}), Fp8Group::Scale::kChannel, true});
    config.fp8_ignore = ignore;
  }
  write_weights(directory / "model.safetensors", weights, two_four);
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
      {"read", read}, {"write", write}, {"dump", dump}, {"match", match}};
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
