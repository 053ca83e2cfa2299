#include "grille/models/config.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "grille/base/error.h"

namespace grille::models {
namespace {

using nlohmann::json;

json minimal() {
  return {{"model_type", "llama"},         {"vocab_size", 100},      {"hidden_size", 64},
          {"intermediate_size", 128},      {"num_hidden_layers", 2}, {"num_attention_heads", 4},
          {"max_position_embeddings", 64}, {"rms_norm_eps", 1e-5}};
}

TEST(Config, FillsInTheFieldsThatFilesLeaveOut) {
  const DecoderConfig config = parse_config(minimal(), "config.json");
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rotary.theta, 10000.0);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_EQ(config.dtype, DType::kFloat32);
}

TEST(Config, KnowsEachFamilysBiasesAndNorms) {
  json object = minimal();
  object["model_type"] = "qwen2";
  EXPECT_TRUE(parse_config(object, "f").qkv_bias);
  EXPECT_FALSE(parse_config(object, "f").output_bias);
  object["model_type"] = "qwen3";
  EXPECT_TRUE(parse_config(object, "f").query_key_norm);
  EXPECT_FALSE(parse_config(object, "f").qkv_bias);
  object["model_type"] = "llama";
  object["attention_bias"] = true;
  EXPECT_TRUE(parse_config(object, "f").qkv_bias);
  EXPECT_TRUE(parse_config(object, "f").output_bias);
}

TEST(Config, ReadsBothWaysOfWritingRotaryParameters) {
  json old = minimal();
  old["rope_theta"] = 500000.0;
  old["rope_scaling"] = {{"rope_type", "llama3"},
                         {"factor", 8.0},
                         {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0},
                         {"original_max_position_embeddings", 8192}};
  json current = minimal();
  current["rope_parameters"] = old["rope_scaling"];
  current["rope_parameters"]["rope_theta"] = 500000.0;
  for (const json& object : {old, current}) {
    const DecoderConfig config = parse_config(object, "f");
    EXPECT_EQ(config.rotary.scaling, nn::RotaryConfig::Scaling::kLlama3);
    EXPECT_EQ(config.rotary.theta, 500000.0);
    EXPECT_EQ(config.rotary.factor, 8.0);
  }
}

TEST(Config, ASlidingWindowLimitsTheContextWhereItIsUsed) {
  json object = minimal();
  object["sliding_window"] = 32;
  object["model_type"] = "mistral";
  EXPECT_EQ(parse_config(object, "f").max_positions, 32);
  object["model_type"] = "qwen2";
  object["use_sliding_window"] = false;
  EXPECT_EQ(parse_config(object, "f").max_positions, 64);
  object["sliding_window"] = nullptr;
  object["model_type"] = "mistral";
  EXPECT_EQ(parse_config(object, "f").max_positions, 64);
}

TEST(Config, RefusesWhatItWouldHaveToIgnore) {
  const auto refused = [](const char* key, const json& value, ErrorCode code) {
    json object = minimal();
    object[key] = value;
    try {
      parse_config(object, "folder/config.json");
      ADD_FAILURE() << key << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find("folder/config.json"), std::string::npos) << error.what();
    }
  };
  refused("model_type", "gemma", ErrorCode::kUnsupported);
  refused("hidden_act", "gelu", ErrorCode::kUnsupported);
  refused("rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}, ErrorCode::kUnsupported);
  refused("final_logit_softcapping", 30.0, ErrorCode::kUnsupported);
  refused("num_local_experts", 8, ErrorCode::kUnsupported);
  refused("partial_rotary_factor", 0.5, ErrorCode::kUnsupported);
  refused("torch_dtype", "int8", ErrorCode::kUnsupported);
  refused("hidden_size", -64, ErrorCode::kCorruptData);
  refused("hidden_size", 1e30, ErrorCode::kCorruptData);
  refused("hidden_size", 18446744073709551615u, ErrorCode::kCorruptData);
  refused("vocab_size", "many", ErrorCode::kCorruptData);
  refused("num_key_value_heads", 3, ErrorCode::kCorruptData);
  refused("head_dim", 7, ErrorCode::kUnsupported);
  refused("tie_word_embeddings", 1, ErrorCode::kCorruptData);
}

TEST(Config, ReadsTheConfigsOfRealModels) {
  const char* environment = std::getenv("GRILLE_SHARED_DATA");
  const std::filesystem::path folder =
      (environment ? std::filesystem::path(environment)
                   : std::filesystem::path(GRILLE_SOURCE_DIR) / ".." / "shared" / "data") /
      "hf-configs";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs shared/data/hf-configs";
  const auto read = [&](const char* name) {
    return parse_config(json::parse(std::ifstream(folder / name / "config.json")), name);
  };
  const DecoderConfig llama = read("Llama-3.1-8B-Instruct");
  EXPECT_EQ(llama.rotary.scaling, nn::RotaryConfig::Scaling::kLlama3);
  EXPECT_EQ(llama.dtype, DType::kBFloat16);
  EXPECT_EQ(llama.max_positions, 131072);
  EXPECT_TRUE(read("Llama-3.2-1B-Instruct").tie_word_embeddings);
  EXPECT_EQ(read("Mistral-7B-v0.1").max_positions, 4096);
  EXPECT_EQ(read("Mistral-7B-Instruct-v0.3").max_positions, 32768);
  EXPECT_EQ(read("Qwen3-32B").head_dim, 128);
  EXPECT_TRUE(read("Qwen2.5-1.5B-resaved").qkv_bias);
  EXPECT_EQ(read("SmolLM2-135M-resaved").rotary.theta, 100000.0);
  EXPECT_EQ(read("Llama-2-7b-hf").num_kv_heads, 32);
  EXPECT_THROW(read("Mixtral-8x7B-v0.1"), Error);
}

}  // namespace
}  // namespace grille::models
