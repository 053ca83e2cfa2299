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
  config.fp8_groups.push_back({"group_0", ModuleTargets({"Linear"}), Fp8Group::Scale::kChannel, true});
  config.fp8_ignore = ModuleTargets({"lm_head"});
  config.two_four = TwoFourGroup{ModuleTargets({"Linear"}), ModuleTargets({"lm_head"}), 0.5};
  return config;
}

std::string parse_error(const json& config) {
  return error_of([&] { parse_compression_config(config, "config.json"); });
}

TEST(CompressionConfig, SurvivesAJourneyThroughJson) {
  const json written = to_json(full());
  const CompressionConfig read = parse_compression_config({{"quantization_config", written}});
  EXPECT_EQ(to_json(read), written);
  const Fp8Group* group = read.fp8_group("model.layers.0.mlp.up_proj");
  ASSERT_NE(group, nullptr);
  EXPECT_TRUE(group->dynamic_activations);
  EXPECT_EQ(read.fp8_group("lm_head"), nullptr);
  EXPECT_EQ(read.fp8_group("model.embed_tokens", "Embedding"), nullptr);
  EXPECT_TRUE(read.is_two_four("model.layers.0.mlp.up_proj"));
  EXPECT_FALSE(read.is_two_four("lm_head"));
}

TEST(CompressionConfig, DenseWeightsHaveNoSparsityConfig) {
  CompressionConfig config = full();
  config.two_four.reset();
  EXPECT_FALSE(to_json(config).contains("sparsity_config"));
  config = full();
  config.fp8_groups.clear();
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
  EXPECT_TRUE(renamed.two_four && renamed.fp8_groups.size() == 1);
  const CompressionConfig alone = parse_compression_config({{"sparsity_config", written["sparsity_config"]}});
  EXPECT_TRUE(alone.two_four && alone.fp8_groups.empty());
  for (const json& none :
       {json::object(), json(nullptr), json({{"format", "dense"}, {"targets", {"Linear"}}})}) {
    json changed = written;
    changed["sparsity_config"] = none;
    const CompressionConfig read = parse_compression_config({{"quantization_config", changed}});
    EXPECT_TRUE(!read.two_four && read.fp8_groups.size() == 1) << none;
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
      {"/config_groups/group_0/format", "pack-quantized", "the format 'pack-quantized' is not supported"},
      {"/config_groups/group_0/format", "marlin-24", "the format 'marlin-24' is not supported"},
      {"/config_groups/group_0/weights/num_bits", 4, "4-bit 'float' is not supported"},
      {"/config_groups/group_0/weights/type", "int", "8-bit 'int' is not supported"},
      {"/config_groups/group_0/weights/strategy", "group", "the strategy 'group' is not supported"},
      {"/config_groups/group_0/weights/strategy", "block", "the strategy 'block' is not supported"},
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
      {"/sparsity_config/format", "sparse-bitmask", "the format 'sparse-bitmask' is not supported"},
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
    config.fp8_groups.push_back({name, ModuleTargets(std::move(targets)), Fp8Group::Scale::kChannel, true});
  };
  add("by class", {"Linear"});
  add("by pattern", {"re:.*head"});
  add("by name", {"lm_head"});
  add("too late", {"lm_head", "re:.*head", "Linear"});
  EXPECT_EQ(config.fp8_group("lm_head")->name, "by name");
  EXPECT_EQ(config.fp8_group("other_head")->name, "by pattern");
  EXPECT_EQ(config.fp8_group("model.layers.0.mlp.up_proj")->name, "by class");
  EXPECT_EQ(config.fp8_group("model.embed_tokens", "Embedding"), nullptr);
}

}  // namespace
}  // namespace grille::checkpoint
