// Files of weights, and what describes them, against mutated input.
#include "grille/base/fuzz.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/checkpoint/compressed_tensors.h"
#include "grille/checkpoint/gguf.h"
#include "grille/checkpoint/gguf_cases.h"
#include "grille/checkpoint/json_file.h"
#include "grille/checkpoint/name_pattern.h"
#include "grille/checkpoint/provenance.h"
#include "grille/checkpoint/safetensors.h"
#include "grille/checkpoint/scratch_directory.h"

namespace grille::checkpoint {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string safetensors_file(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

// Reads the file that the header describes and, where it can be, a linear layer in it.
void read_safetensors(const std::string& text) {
  const SafetensorsSource source(bytes_of(text), "f");
  CompressionConfig config;
  config.two_four = SparseGroup{ModuleTargets({"Linear"}), {}, 0.5};
  config.groups.push_back({"g", ModuleTargets({"Linear"}), {}});
  for (const auto& [name, info] : source.tensors()) source.read_tensor(name);
  if (!linear_tensor_names(source, "m").empty()) read_linear(source, config, "m", 2, 8);
}

TEST(FuzzSafetensors, AnyBytesGiveAnErrorOrATensor) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"m.shape":{"dtype":"I64","shape":[2,1],"data_offsets":[0,16]},)"
      R"("m.weight_scale":{"dtype":"F32","shape":[2,1],"data_offsets":[16,24]},)"
      R"("m.compressed":{"dtype":"F8_E4M3","shape":[2,4],"data_offsets":[24,32]},)"
      R"("m.bitmask":{"dtype":"U8","shape":[2,1],"data_offsets":[32,34]}})";
  std::string data(34, '\0');
  data[0] = 2;
  data[8] = 8;
  data.replace(16, 8, std::string("\0\0\x80\x3f\0\0\x80\x3f", 8));
  data.replace(32, 2, "\xC9\x33");
  fuzz({{safetensors_file(header, data),
         safetensors_file(R"({"t":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})",
                          std::string(16, '\1')),
         safetensors_file("{}", "")},
        json_words()},
       read_safetensors);
}

TEST(FuzzSafetensors, AnyHeaderGivesAnErrorOrATensor) {  // the length always fits: more gets past it
  fuzz(
      {{R"({"a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})",
        R"({"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"__metadata__":{"k":"v"},"b":{"dtype":"F64","shape":[1,1],"data_offsets":[8,16]}})"},
       json_words()},
      [](const std::string& header) { read_safetensors(safetensors_file(header, std::string(16, '\1'))); });
}

TEST(FuzzSafetensorsIndex, AnyIndexGivesAnErrorOrTheTensorsOfItsFiles) {
  const ScratchDirectory folder;
  folder.write(
      "a.safetensors",
      safetensors_file(
          R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"y":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
          "01234567"));
  folder.write("b.safetensors",
               safetensors_file(R"({"z":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "0123"));
  fuzz(
      {{R"({"metadata":{"total_size":12},"weight_map":{"x":"a.safetensors","y":"a.safetensors","z":"b.safetensors"}})",
        R"({"weight_map":{"z":"b.safetensors"}})"},
       {"{", "}", "\"", ":", ",", "a.safetensors", "b.safetensors", "/dev/zero", "../", "weight_map", "[]",
        "\\u0000"},
       /*cost=*/10},  // one file is written, up to three are opened
      [&](const std::string& text) {
        folder.write("model.safetensors.index.json", text);
        const SafetensorsSource source(folder.path());
        for (const auto& [name, info] : source.tensors()) source.read_tensor(name);
      });
}

TEST(FuzzGguf, AnyBytesGiveAnErrorOrTensors) {
  using Type = GgufValueType;
  const std::string small = GgufBytes()
                                .head(1, 2)
                                .array("tokens", Type::kString, 2)
                                .string("a")
                                .string("b")
                                .key("general.alignment", Type::kUInt32)
                                .number(8)
                                .tensor("t", {32, 2}, 2, 0)
                                .pad(8)
                                .raw(std::string(36, '\2'))
                                .text();
  fuzz({{sample_gguf(), small}, json_words()}, [](const std::string& text) {
    const GgufSource source(bytes_of(text), "f");
    for (const auto& [name, info] : source.tensors()) source.read_tensor(name);
    for (const auto& [key, value] : source.metadata().values()) {
      if (!value.is_array && value.type == Type::kString) source.metadata().get_string(key);
      if (value.is_array && value.type == Type::kString) source.metadata().get_string_array(key);
      if (value.is_array && value.type != Type::kString && value.type != Type::kBool)
        source.metadata().get_float_array(key);
    }
  });
}

TEST(FuzzCompressionConfig, AnyTextGivesAnErrorOrAConfiguration) {
  CompressionConfig config;
  config.groups.push_back({"group_0", ModuleTargets({"Linear", "re:.*mlp\\.(up|down)_proj$"}), {}});
  config.not_quantized = ModuleTargets({"lm_head", "re:.*[a-z0-9]{2,3}x"});
  config.two_four = SparseGroup{ModuleTargets({"Linear"}), ModuleTargets({"lm_head"}), 0.5};
  Provenance provenance;
  provenance.steps.emplace_back().command = "prune";
  provenance.steps[0].layers = {{"a", 0.5, 0.1, 0.01}};
  const nlohmann::json whole = {{"quantization_config", to_json(config)}, {"grille", to_json(provenance)}};
  const nlohmann::json old = {{"sparsity_config", whole["quantization_config"]["sparsity_config"]}};
  fuzz({{whole.dump(), old.dump()}, json_words()}, [](const std::string& text) {
    const nlohmann::json parsed = parse_json(text, "config.json");
    const CompressionConfig read = parse_compression_config(parsed);
    read.group_of("model.layers.0.mlp.up_proj");
    read.is_two_four("model.layers.0.mlp.up_proj");
    parse_provenance(parsed);
  });
}

TEST(FuzzNamePattern, AnyPatternGivesAnErrorOrAnAnswer) {
  fuzz({{".*lm_head", "model\\.layers\\.(0|1|12)\\.[a-z_]+$", "(a{2,5}|b?c+)*[^x-z]", "^(?:q|k|v)_proj\\d*$"},
        {"(", ")*", "|", "{1000}", "[", "]", "^", "$", "\\", "\xff"}},
       [](const std::string& pattern) { NamePattern(pattern).matches("model.layers.12.self_attn.q_proj"); });
}

}  // namespace
}  // namespace grille::checkpoint
