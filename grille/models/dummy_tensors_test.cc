#include "grille/models/dummy_tensors.h"

#include <cstring>
#include <fstream>
#include <numeric>

#include <ATen/ops/isfinite.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "grille/base/error.h"
#include "grille/checkpoint/scratch_directory.h"
#include "grille/models/load.h"
#include "grille/nn/attention.h"

namespace grille::models {
namespace {

using nlohmann::json;

json config_json(const json& quantization) {
  json config = {{"model_type", "qwen3"},
                 {"vocab_size", 40},
                 {"hidden_size", 64},
                 {"intermediate_size", 100},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", 16},
                 {"max_position_embeddings", 64},
                 {"tie_word_embeddings", false},
                 {"torch_dtype", "bfloat16"},
                 {"attention_bias", true}};
  if (!quantization.is_null()) config["quantization_config"] = quantization;
  return config;
}

json two_four_fp8(const char* strategy) {
  json group = json::parse(R"({"targets": ["Linear"],
      "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true, "dynamic": false},
      "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": true,
                            "dynamic": true}})");
  group["weights"]["strategy"] = strategy;
  return {{"quant_method", "compressed-tensors"},
          {"format", "float-quantized"},
          {"quantization_status", "compressed"},
          {"ignore", {"lm_head"}},
          {"config_groups", {{"group_0", group}}},
          {"sparsity_config",
           {{"format", "sparse-24-bitmask"},
            {"sparsity_structure", "2:4"},
            {"targets", {"Linear"}},
            {"ignore", {"lm_head"}}}}};
}

class DummyTensorsTest : public testing::Test {
 protected:
  Decoder load(const json& config, std::uint64_t seed = 0) {
    std::ofstream(folder_.path() / "config.json") << config.dump();
    return load_decoder(open_dummy_model(folder_.path().string(), seed), {}, no_progress());
  }

  const c10::InferenceMode inference_;
  const checkpoint::ScratchDirectory folder_;
};

TEST_F(DummyTensorsTest, EveryFormatRuns) {
  for (const json& quantization : {json(), two_four_fp8("channel"), two_four_fp8("tensor")}) {
    const Decoder decoder = load(config_json(quantization));
    const auto& down = dynamic_cast<const nn::WeightLinear&>(decoder.layers[1].linear(Slot::kDown));
    EXPECT_EQ(down.weight().format == tensors::WeightFormat::kTwoFour, !quantization.is_null());
    EXPECT_EQ(down.weight().dtype(), quantization.is_null() ? DType::kBFloat16 : DType::kFloat8E4M3);
    // Variance 1 / columns of what is kept, within what 3200 values do not miss. Float8 codes of exponents up
    // to 2^0 have a mean square of 0.358, and the scale's is 3 / columns.
    const at::Tensor dense = tensors::to_dense_float(down.weight());
    const double variance = dense.square().sum().item<double>() / 64 / 100;
    const double expected = 0.01 * (quantization.is_null() ? 1.0 : 0.5 * 3 * 0.358);
    EXPECT_NEAR(variance, expected, 0.2 * expected);
    std::vector<std::int64_t> positions(5);
    std::iota(positions.begin(), positions.end(), 0);
    nn::SegmentAttention attention({5});
    const at::Tensor logits = decoder.logits(decoder.forward({1, 2, 3, 4, 5}, positions, attention));
    EXPECT_TRUE(at::isfinite(logits).all().item<bool>());
  }
}

TEST_F(DummyTensorsTest, ValuesDependOnTheSeedAndNotOnThePiecesRead) {
  const auto embedding = [&](std::uint64_t seed) {
    return load(config_json(nullptr), seed).embedding.values;
  };
  EXPECT_TRUE(embedding(3).equal(embedding(3)));
  EXPECT_FALSE(embedding(3).equal(embedding(4)));
  const DecoderConfig config = parse_config(config_json(nullptr), "config.json");
  const DummyTensors tensors(config, {}, 1);
  const std::string name = "model.layers.0.self_attn.k_proj.weight";
  const at::Tensor whole = tensors.read_tensor(name);
  std::vector<std::byte> row(64 * 2);
  tensors.read_rows(name, 7, 8, row);
  EXPECT_EQ(std::memcmp(row.data(), static_cast<const std::byte*>(whole.const_data_ptr()) + 7 * row.size(),
                        row.size()),
            0);
}

TEST_F(DummyTensorsTest, RefusesAbsurdConfigurations) {
  json config = config_json(nullptr);
  config["num_hidden_layers"] = 2'000'000'000;
  EXPECT_THROW(load(config), Error);
  EXPECT_THROW(open_dummy_model((folder_.path() / "config.json").string(), 0), Error);
}

}  // namespace
}  // namespace grille::models
