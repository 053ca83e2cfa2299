#include "grille/compress/output_config.h"

#include <gtest/gtest.h>

#include "grille/checkpoint/provenance.h"
#include "grille/compress/tiny_model.h"

namespace grille::compress {
namespace {

using checkpoint::LinearForm;

constexpr const char* kQuery = "model.layers.0.self_attn.q_proj";
constexpr const char* kUp = "model.layers.0.mlp.up_proj";

using checkpoint::Encoding;
using Inputs = checkpoint::QuantizationScheme::Inputs;

LinearForm form(bool two_four, bool fp8, Inputs inputs = Inputs::kFp8) {
  LinearForm result;
  result.encoding = two_four ? Encoding::kTwoFour : Encoding::kPlain;
  result.rows = 8;
  result.cols = 16;
  result.dtype = fp8 ? DType::kFloat8E4M3 : DType::kBFloat16;
  if (fp8) result.scale_dtype = DType::kBFloat16;
  result.inputs = inputs;
  return result;
}

TEST(CompressionFor, NothingCompressedIsAnEmptyConfig) {
  const auto config =
      compression_for({{"model.embed_tokens", form(false, false)}, {kQuery, form(false, false)}});
  EXPECT_TRUE(config.empty());
}

// What is written must make a reader expect just the forms that are there, also after a journey through JSON.
TEST(CompressionFor, AReaderExpectsJustTheFormsThatAreThere) {
  for (const bool embedding_fp8 : {false, true}) {
    for (const bool tied : {false, true}) {
      for (int bits = 0; bits < 16; ++bits) {
        ModuleForms forms = {{"model.embed_tokens", form(false, embedding_fp8, Inputs::kFull)},
                             {kQuery, form((bits & 1) != 0, (bits & 2) != 0)},
                             {kUp, form((bits & 4) != 0, (bits & 8) != 0)}};
        if (!tied) forms["lm_head"] = form(false, embedding_fp8, Inputs::kFull);
        const checkpoint::CompressionConfig written = compression_for(forms);
        checkpoint::CompressionConfig read;
        if (!written.empty())
          read =
              checkpoint::parse_compression_config({{"quantization_config", checkpoint::to_json(written)}});
        for (const auto& [module, expected] : forms) {
          const std::string class_name = module == "model.embed_tokens" ? "Embedding" : "Linear";
          const checkpoint::QuantizedGroup* fp8 = read.group_of(module, class_name);
          EXPECT_EQ(fp8 != nullptr, expected.scale_dtype.has_value()) << module << " " << bits;
          EXPECT_EQ(read.is_two_four(module, class_name), expected.two_four()) << module << " " << bits;
          if (fp8 == nullptr) continue;
          // The embedding and the head take their inputs as they are.
          EXPECT_EQ(fp8->scheme.inputs, expected.inputs) << module;
        }
        EXPECT_FALSE(read.is_two_four("lm_head")) << bits;
      }
    }
  }
}

// A mixed model: each scheme is a group of its own, and the most frequent one claims the class.
TEST(CompressionFor, SeveralSchemesAreSeveralGroups) {
  LinearForm int4;
  int4.encoding = Encoding::kPacked;
  int4.rows = 8;
  int4.cols = 16;
  int4.dtype = DType::kInt8;
  int4.scale_dtype = DType::kBFloat16;
  int4.bits = 4;
  int4.blocks = true;
  int4.block_cols = 8;
  const std::string down = "model.layers.0.mlp.down_proj";
  const auto config = compression_for({{kQuery, int4}, {kUp, form(false, true)}, {down, int4}});
  const auto read =
      checkpoint::parse_compression_config({{"quantization_config", checkpoint::to_json(config)}});
  EXPECT_EQ(checkpoint::to_json(config)["format"], "mixed-precision");
  EXPECT_EQ(read.group_of(kQuery)->scheme, checkpoint::scheme_of(int4));
  EXPECT_EQ(read.group_of(down)->name, "group_0");
  EXPECT_EQ(read.group_of(kUp)->scheme, checkpoint::scheme_of(form(false, true)));
  EXPECT_EQ(read.group_of("lm_head"), nullptr);
}

TEST(CompressionFor, GlobalSparsityIsTheShareOfZerosInLinearLayers) {
  ModuleForms forms = {{"model.embed_tokens", {Encoding::kPlain, 100, 16, DType::kBFloat16, {}}},
                       {kQuery, {Encoding::kTwoFour, 8, 16, DType::kBFloat16, {}}},
                       {kUp, {Encoding::kPlain, 24, 16, DType::kBFloat16, {}}}};
  EXPECT_EQ(compression_for(forms).two_four->global_sparsity, 0.125);  // half of a quarter
}

TEST(Describe, NamesEveryOptionOfTheMethod) {
  Options options;
  options.prune.emplace();
  options.prune->method = Method::kSparseGpt;
  const nlohmann::json object = describe(options);
  for (const char* key :
       {"pattern", "sparsity", "targets", "ignore", "damping", "true_sequential", "quantize"})
    EXPECT_TRUE(object.contains(key)) << key;
  EXPECT_FALSE(object.contains("samples"));
  options.calibration_samples = 3;
  options.calibration_context = 40;
  EXPECT_EQ(describe(options)["samples"], 3);
  EXPECT_EQ(describe(options)["context"], 40);
  options.prune->method = Method::kMagnitude;
  EXPECT_FALSE(describe(options).contains("damping"));
}

TEST(OutputConfig, ReplacesCompressionAndDtypeAndAppendsAStep) {
  const TinyModel model;
  models::ModelFiles files = model.open();
  files.hf_config["sparsity_config"] = "old";
  files.hf_config["dtype"] = "float32";
  checkpoint::Provenance earlier;
  earlier.steps.emplace_back().command = "prune";
  files.hf_config["grille"] = checkpoint::to_json(earlier);
  Options options;
  options.dtype = DType::kBFloat16;
  options.seed = 7;
  const nlohmann::json config = output_config(
      files, options, {}, {{"model.embed_tokens", form(false, false)}, {kUp, form(true, false)}});
  EXPECT_FALSE(config.contains("sparsity_config"));
  EXPECT_FALSE(config.contains("dtype"));
  EXPECT_EQ(config["torch_dtype"], "bfloat16");
  EXPECT_EQ(config["hidden_size"], 32);
  EXPECT_TRUE(config.contains("quantization_config"));
  const auto provenance = checkpoint::parse_provenance(config);
  ASSERT_EQ(provenance->steps.size(), 2u);
  EXPECT_EQ(provenance->steps[0].command, "prune");
  EXPECT_EQ(provenance->steps[1].command, "convert");
  EXPECT_EQ(provenance->steps[1].seed, 7u);
}

}  // namespace
}  // namespace grille::compress
