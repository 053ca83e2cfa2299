// What describes a model - config.json, a GGUF's metadata - against mutated input.
#include "grille/base/fuzz.h"

#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grille/checkpoint/gguf_cases.h"
#include "grille/checkpoint/json_file.h"
#include "grille/checkpoint/safetensors_writer.h"
#include "grille/checkpoint/scratch_directory.h"
#include "grille/models/decoder.h"
#include "grille/models/gguf_model.h"
#include "grille/models/model_files.h"

namespace grille::models {
namespace {

using checkpoint::GgufValueType;

// A model without layers would be refused, so that there is one, of 2 by 2.
const std::vector<checkpoint::TensorSpec>& tensors_of_one_layer() {
  static const std::vector<checkpoint::TensorSpec> kTensors = {
      {"model.embed_tokens.weight", DType::kFloat32, {4, 2}},
      {"model.norm.weight", DType::kFloat32, {2}},
      {"model.layers.0.input_layernorm.weight", DType::kFloat32, {2}},
      {"model.layers.0.post_attention_layernorm.weight", DType::kFloat32, {2}},
      {"model.layers.0.self_attn.q_proj.weight", DType::kFloat32, {2, 2}},
      {"model.layers.0.self_attn.k_proj.weight", DType::kFloat32, {2, 2}},
      {"model.layers.0.self_attn.v_proj.weight", DType::kFloat32, {2, 2}},
      {"model.layers.0.self_attn.o_proj.weight", DType::kFloat32, {2, 2}},
      {"model.layers.0.mlp.gate_proj.weight", DType::kFloat32, {2, 2}},
      {"model.layers.0.mlp.up_proj.weight", DType::kFloat32, {2, 2}},
      {"model.layers.0.mlp.down_proj.weight", DType::kFloat32, {2, 2}}};
  return kTensors;
}

void write_weights(const std::filesystem::path& file) {
  checkpoint::SafetensorsWriter writer(file, tensors_of_one_layer());
  const std::string zeros(32, '\0');
  for (const checkpoint::TensorSpec& tensor : tensors_of_one_layer()) {
    const auto info = checkpoint::make_tensor_info(tensor.dtype, tensor.shape);
    writer.write(tensor.name, std::as_bytes(std::span(zeros.data(), static_cast<std::size_t>(info->bytes))));
  }
  writer.finish();
}

TEST(FuzzModel, AnyConfigurationGivesAnErrorOrAModel) {
  const checkpoint::ScratchDirectory folder;
  write_weights(folder / "model.safetensors");
  std::vector<std::string> words = json_words();
  words.insert(words.end(),
               {"2147483647", "0", "\"yarn\"", "\"llama3\"", "\"qwen3\"", "\"sliding_window\":2,", "1e-300"});
  fuzz(
      {{R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":4,"hidden_size":2,"intermediate_size":2,)"
        R"("num_hidden_layers":1,"num_attention_heads":1,"num_key_value_heads":1,"head_dim":2,"max_position_embeddings":8,)"
        R"("rms_norm_eps":1e-5,"rope_theta":10000.0,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,)"
        R"("high_freq_factor":4.0,"original_max_position_embeddings":8},"tie_word_embeddings":true,"hidden_act":"silu",)"
        R"("torch_dtype":"bfloat16","attention_bias":false})",
        R"({"model_type":"mistral","vocab_size":4,"hidden_size":2,"intermediate_size":2,"num_hidden_layers":1,)"
        R"("num_attention_heads":1,"sliding_window":4,"tie_word_embeddings":true,"quantization_config":null})"},
       std::move(words),
       /*cost=*/4},  // a file is written, two are opened
      [&](const std::string& text) {
        folder.write("config.json", text);
        const ModelFiles files = open_model(folder.path().string());
        slot_shape(files.config, Slot::kDown);
        if (files.config.head_dim <= 256) nn::rotary_frequencies(files.config.rotary);
      });
}

std::string gguf_model(const std::string& architecture, const std::string& tokenizer) {
  using Type = GgufValueType;
  checkpoint::GgufBytes file;
  const bool gpt2 = tokenizer == "gpt2";
  const bool llama3 = architecture == "llama";
  file.head(llama3 ? 3 : 2, gpt2 ? 17 : 18);
  file.key("general.architecture", Type::kString).string(architecture);
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::uint32_t>>{{".embedding_length", 32},
                                                          {".feed_forward_length", 32},
                                                          {".block_count", 1},
                                                          {".context_length", 64},
                                                          {".attention.head_count", 8},
                                                          {".attention.head_count_kv", 4},
                                                          {".rope.dimension_count", 4}})
    file.key(architecture + key, Type::kUInt32).number(value);
  file.key(architecture + ".rope.freq_base", Type::kFloat32).number(5e8f);
  file.key("tokenizer.ggml.model", Type::kString).string(tokenizer);
  file.key("tokenizer.ggml.pre", Type::kString).string(gpt2 ? "smollm" : "default");
  file.array("tokenizer.ggml.tokens", Type::kString, 5)
      .string("a")
      .string("b")
      .string("ab")
      .string("<s>")
      .string("</s>");
  file.array("tokenizer.ggml.token_type", Type::kInt32, 5).number(1).number(1).number(1).number(3).number(3);
  if (gpt2) {
    file.array("tokenizer.ggml.merges", Type::kString, 1).string("a b");
  } else {
    file.array("tokenizer.ggml.scores", Type::kFloat32, 5);
    for (int i = 0; i < 5; ++i) file.number(-static_cast<float>(i));
    file.key("tokenizer.ggml.unknown_token_id", Type::kUInt32).number<std::uint32_t>(3);
  }
  file.key("tokenizer.ggml.bos_token_id", Type::kUInt32).number<std::uint32_t>(3);
  file.key("tokenizer.ggml.eos_token_id", Type::kUInt32).number<std::uint32_t>(4);
  file.key("tokenizer.ggml.add_bos_token", Type::kBool).number<std::uint8_t>(1);
  file.tensor("token_embd.weight", {32, 5}, 0, 0);
  file.tensor("blk.0.attn_q.weight", {4, 32}, 0, 640);
  if (llama3) file.tensor("rope_freqs.weight", {2}, 0, 640 + 512);
  std::string data(640 + 512, '\1');
  if (llama3) {  // Llama 3's divisors for a head of 4: at this base the second frequency is divided by 8
    const float divisors[2] = {1.0f, 8.0f};
    data.append(reinterpret_cast<const char*>(divisors), sizeof divisors);
  }
  data.resize((data.size() + 31) / 32 * 32, '\0');
  return file.pad().raw(data).text();
}

TEST(FuzzGgufModel, AnyBytesGiveAnErrorOrAModel) {
  fuzz({{gguf_model("llama", "llama"), gguf_model("qwen2", "gpt2"), gguf_model("qwen3", "llama")},
        json_words(),
        /*cost=*/2},  // a tokenizer is made
       [](const std::string& text) {
         auto file = std::make_unique<checkpoint::GgufSource>(std::as_bytes(std::span(text)), "f");
         const nlohmann::json config = hf_config_from_gguf(*file, "f");
         const DecoderConfig parsed = parse_config(config, "f");
         const text::GgmlVocabulary vocabulary = vocabulary_from_gguf(*file);
         const auto tensors = hf_tensors_from_gguf(std::move(file), config);
         for (const auto& [name, info] : tensors->tensors()) tensors->read_tensor(name);
         EXPECT_GT(parsed.head_dim, 0);
         text::tokenizer_of(vocabulary).encode("abba");
       });
}

}  // namespace
}  // namespace grille::models
