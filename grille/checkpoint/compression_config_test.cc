#include "grille/checkpoint/compression_config.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "grille/checkpoint/scratch_directory.h"

namespace grille::checkpoint {
namespace {

using nlohmann::json;

CompressionConfig full() {
  CompressionConfig config;
  config.groups.push_back({"group_0", ModuleTargets({"Linear"}), {}});
  config.not_quantized = ModuleTargets({"lm_head"});
  config.two_four = SparseGroup{ModuleTargets({"Linear"}), ModuleTargets({"lm_head"}), 0.5};
  return config;
}

std::string parse_error(const json& config) {
  return error_of([&] { parse_compression_config(config, "config.json"); });
}

TEST(CompressionConfig, SurvivesAJourneyThroughJson) {
  const json written = to_json(full());
  const CompressionConfig read = parse_compression_config({{"quantization_config", written}});
  EXPECT_EQ(to_json(read), written);
  const QuantizedGroup* group = read.group_of("model.layers.0.mlp.up_proj");
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(group->scheme.inputs, QuantizationScheme::Inputs::kFp8);
  EXPECT_EQ(read.group_of("lm_head"), nullptr);
  EXPECT_EQ(read.group_of("model.embed_tokens", "Embedding"), nullptr);
  EXPECT_TRUE(read.is_two_four("model.layers.0.mlp.up_proj"));
  EXPECT_FALSE(read.is_two_four("lm_head"));
}

TEST(CompressionConfig, DenseWeightsHaveNoSparsityConfig) {
  CompressionConfig config = full();
  config.two_four.reset();
  EXPECT_FALSE(to_json(config).contains("sparsity_config"));
  config = full();
  config.groups.clear();
  EXPECT_FALSE(to_json(config).contains("format"));
  EXPECT_FALSE(to_json(config).contains("config_groups"));
}

TEST(CompressionConfig, AConfigWithoutCompressionIsEmpty) {
  EXPECT_TRUE(parse_compression_config(json::object()).empty());
  EXPECT_TRUE(parse_compression_config({{"quantization_config", nullptr}}).empty());
  EXPECT_TRUE(parse_compression_config({{"sparsity_config", json::object()}}).empty());
  EXPECT_TRUE(
      parse_compression_config({{"sparsity_config", {{"format", "dense"}, {"sparsity_structure", "2:4"}}}})
          .empty());
}

TEST(CompressionConfig, ReadsOlderForms) {
  const json written = to_json(full());
  const CompressionConfig renamed = parse_compression_config({{"compression_config", written}});
  EXPECT_TRUE(renamed.two_four && renamed.groups.size() == 1);
  const CompressionConfig alone = parse_compression_config({{"sparsity_config", written["sparsity_config"]}});
  EXPECT_TRUE(alone.two_four && alone.groups.empty());
  for (const json& none :
       {json::object(), json(nullptr), json({{"format", "dense"}, {"targets", {"Linear"}}})}) {
    json changed = written;
    changed["sparsity_config"] = none;
    const CompressionConfig read = parse_compression_config({{"quantization_config", changed}});
    EXPECT_TRUE(!read.two_four && read.groups.size() == 1) << none;
  }
  json inherited = written;  // the format only at the top
  inherited["config_groups"]["group_0"].erase("format");
  EXPECT_EQ(to_json(parse_compression_config({{"quantization_config", inherited}})), written);
}

TEST(CompressionConfig, NamesWhatItCannotRead) {
  const json written = to_json(full());
  struct Case {
    const char* pointer;
    json value;
    const char* message;
  };
  const Case cases[] = {
      {"/quant_method", "gptq", "the method 'gptq' is not supported"},
      {"/format", "pack-quantized", ""},  // the group says float-quantized
      {"/format", "os.system", "the format 'os.system' is unknown"},
      {"/config_groups/group_0/format", "pack-quantized",
       "8-bit 'float' as 'pack-quantized' is not supported"},
      {"/config_groups/group_0/format", "marlin-24", "8-bit 'float' as 'marlin-24' is not supported"},
      {"/config_groups/group_0/weights/num_bits", 4, "4-bit 'float' as 'float-quantized' is not supported"},
      {"/config_groups/group_0/weights/type", "int", "8-bit 'int' as 'float-quantized' is not supported"},
      {"/config_groups/group_0/weights/strategy", "group", "the strategy group without group_size"},
      {"/config_groups/group_0/weights/strategy", "block", "block_structure is not two numbers"},
      {"/config_groups/group_0/weights/symmetric", false, "asymmetric quantization is not supported"},
      {"/config_groups/group_0/input_activations/dynamic", false,
       "static activation scales (input_scale) are not supported"},
      {"/config_groups/group_0/input_activations/dynamic", "local", "local scales are not supported"},
      {"/config_groups/group_0/input_activations/strategy", "tensor",
       "the strategy 'tensor' is not supported"},
      {"/config_groups/group_0/output_activations", json::object(), "output_activations are not supported"},
      {"/config_groups/group_0/targets", "Linear", "targets is not a list"},
      {"/config_groups/group_0/targets", {1}, "something else than strings"},
      {"/config_groups/group_0/targets", {"re:(?!a)"}, "targets: pattern '(?!a)'"},
      {"/config_groups/group_0", {"Linear"}, "a preset scheme by name"},
      {"/config_groups", 3, "config_groups: expected a JSON object"},
      {"/kv_cache_scheme", {{"num_bits", 8}}, "kv_cache_scheme is not supported"},
      {"/transform_config", {{"a", 1}}, "transform_config is not supported"},
      {"/config_groups/group_0/weights/strategy", "attn_head", "the strategy 'attn_head' is not supported"},
      {"/config_groups/group_0/weights/strategy", 3, "strategy is not a string"},
      {"/config_groups/group_0/weights/actorder", "group", "actorder is not supported"},
      {"/sparsity_config/format", "int-quantized", "the format 'int-quantized' is not supported"},
      {"/sparsity_config/format", "x\ny", "the format 'x\\x0ay' is unknown"},
      {"/sparsity_config/sparsity_structure", "unstructured", "not 'unstructured'"},
      {"/sparsity_config", 3, "sparsity_config: expected a JSON object"},
  };
  for (const Case& c : cases) {
    json changed = written;
    changed[json::json_pointer(c.pointer)] = c.value;
    const std::string message = parse_error({{"quantization_config", changed}});
    expect_contains(message, *c.message == '\0' ? "no error" : c.message);
  }
  expect_contains(parse_error(json::array()), "config.json: expected a JSON object");
  expect_contains(parse_error({{"quantization_config", {{"format", "int-quantized"}}}}),
                  "'int-quantized' without config_groups");
}

TEST(CompressionConfig, TheMostSpecificTargetClaimsAModule) {
  CompressionConfig config;
  const auto add = [&](const char* name, std::vector<std::string> targets) {
    config.groups.push_back({name, ModuleTargets(std::move(targets)), {}});
  };
  add("by class", {"Linear"});
  add("by pattern", {"re:.*head"});
  add("by name", {"lm_head"});
  add("too late", {"lm_head", "re:.*head", "Linear"});
  EXPECT_EQ(config.group_of("lm_head")->name, "by name");
  EXPECT_EQ(config.group_of("other_head")->name, "by pattern");
  EXPECT_EQ(config.group_of("model.layers.0.mlp.up_proj")->name, "by class");
  EXPECT_EQ(config.group_of("model.embed_tokens", "Embedding"), nullptr);
}

}  // namespace
}  // namespace grille::checkpoint
