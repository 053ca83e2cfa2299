#include "grille/models/gguf_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/nn/rotary.h"

namespace grille::models {
namespace {

using nlohmann::json;

struct NamePair {
  const char* gguf;
  const char* hugging_face;
};

constexpr std::array<NamePair, 3> kGlobalNames = {{
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
}};

constexpr std::array<NamePair, 11> kBlockNames = {{
    {"attn_norm", "input_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
}};

constexpr const char* kRopeDivisors = "rope_freqs.weight";

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; a name that is not known stays as it
// is, and is reported later as a surplus tensor.
std::string hf_name(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return name;
  const std::string stem = name.substr(0, dot);
  const std::string suffix = name.substr(dot);
  for (const NamePair& pair : kGlobalNames) {
    if (stem == pair.gguf) return pair.hugging_face + suffix;
  }
  if (!stem.starts_with("blk.")) return name;
  const std::size_t end = stem.find('.', 4);
  if (end == std::string::npos) return name;
  for (const NamePair& pair : kBlockNames) {
    if (stem.substr(end + 1) == pair.gguf) {
      return fmt::format("model.layers.{}.{}{}", stem.substr(4, end - 4), pair.hugging_face, suffix);
    }
  }
  return name;
}

class GgufTensors final : public checkpoint::TensorSource {
 public:
  GgufTensors(std::unique_ptr<checkpoint::GgufSource> file, std::int64_t heads, std::int64_t kv_heads,
              bool permuted)
      : file_(std::move(file)), heads_(heads), kv_heads_(kv_heads), permuted_(permuted) {
    for (const auto& [name, info] : file_->tensors()) {
      if (name == kRopeDivisors) continue;  // part of the configuration
      const std::string renamed = hf_name(name);
      check(tensors_.emplace(renamed, info).second, ErrorCode::kCorruptData, "{}: two tensors stand for '{}'",
            file_->locate(name), renamed);
      originals_.emplace(renamed, name);
    }
  }

  const std::map<std::string, checkpoint::TensorInfo>& tensors() const override { return tensors_; }
  std::int64_t file_bytes() const override { return file_->file_bytes(); }
  std::string locate(const std::string& name) const override { return file_->locate(original(name)); }

  void read_rows(const std::string& name, std::int64_t begin, std::int64_t end,
                 std::span<std::byte> out) const override {
    const std::int64_t heads = permuted_heads(name);
    if (heads == 0) return file_->read_rows(original(name), begin, end, out);
    const checkpoint::TensorInfo& info = tensors_.at(name);
    const std::int64_t rows = info.shape.at(0);
    check(rows % (2 * heads) == 0, ErrorCode::kCorruptData, "{}: {} rows cannot be split into {} heads",
          locate(name), rows, heads);
    const std::size_t row_bytes = static_cast<std::size_t>(info.bytes / rows);
    std::vector<std::byte> stored(static_cast<std::size_t>(info.bytes));
    file_->read_rows(original(name), 0, rows, stored);
    const std::int64_t head_dim = rows / heads;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t in_head = row % head_dim;
      const std::int64_t half = in_head / (head_dim / 2);
      const std::int64_t source = row - in_head + 2 * (in_head % (head_dim / 2)) + half;
      std::memcpy(out.data() + static_cast<std::size_t>(row - begin) * row_bytes,
                  stored.data() + static_cast<std::size_t>(source) * row_bytes, row_bytes);
    }
  }

 private:
  const std::string& original(const std::string& name) const {
    const auto found = originals_.find(name);
    check(found != originals_.end(), ErrorCode::kNotFound, "tensor '{}' is not in the file", name);
    return found->second;
  }

  // Heads of a tensor whose rows are permuted, or 0.
  std::int64_t permuted_heads(const std::string& name) const {
    if (!permuted_) return 0;
    if (name.find("self_attn.q_proj.") != std::string::npos) return heads_;
    if (name.find("self_attn.k_proj.") != std::string::npos) return kv_heads_;
    return 0;
  }

  std::unique_ptr<checkpoint::GgufSource> file_;
  std::int64_t heads_;
  std::int64_t kv_heads_;
  bool permuted_;
  std::map<std::string, checkpoint::TensorInfo> tensors_;
  std::map<std::string, std::string> originals_;  // Hugging Face name -> the file's
};

// Reads "<architecture>.<key>" entries.
class Metadata {
 public:
  Metadata(const checkpoint::GgufMetadata& metadata, std::string path, std::string architecture)
      : metadata_(metadata), path_(std::move(path)), architecture_(std::move(architecture)) {}

  std::optional<std::uint64_t> count(const char* key) const { return metadata_.get_uint(full(key)); }
  std::optional<double> number(const char* key) const { return metadata_.get_float(full(key)); }
  std::optional<std::string> text(const char* key) const { return metadata_.get_string(full(key)); }
  std::uint64_t required(const char* key) const {
    const auto value = count(key);
    check(value.has_value(), ErrorCode::kCorruptData, "{}: metadata key '{}' is missing", path_, full(key));
    return *value;
  }

 private:
  std::string full(const char* key) const { return architecture_ + "." + key; }

  const checkpoint::GgufMetadata& metadata_;
  std::string path_;
  std::string architecture_;
};

// Llama 3.1 and later: the file stores each frequency's divisor. Two known parameter sets make them;
// finding the one that fits gives a config.json that other programs understand.
json llama3_scaling(const checkpoint::GgufSource& file, const json& config) {
  const checkpoint::TensorInfo& info = file.tensors().at(kRopeDivisors);
  constexpr std::uint64_t kLargestHead = 1 << 16;  // larger ones are refused later, with the configuration
  const auto stated = config.at("head_dim").get<std::uint64_t>();
  const std::int64_t head_dim = static_cast<std::int64_t>(std::min(stated, kLargestHead));
  check(info.dtype == DType::kFloat32 && info.bytes == head_dim / 2 * 4, ErrorCode::kCorruptData,
        "{}: expected float32 [{}]", file.locate(kRopeDivisors), head_dim / 2);
  std::vector<float> divisors(static_cast<std::size_t>(head_dim / 2));
  file.read(kRopeDivisors, std::as_writable_bytes(std::span(divisors)));
  for (const double factor : {8.0, 32.0}) {
    nn::RotaryConfig rotary;
    rotary.theta = config.at("rope_theta").get<double>();
    rotary.head_dim = head_dim;
    const std::vector<float> plain = nn::rotary_frequencies(rotary);
    rotary.scaling = nn::RotaryConfig::Scaling::kLlama3;
    rotary.factor = factor;
    const std::vector<float> scaled = nn::rotary_frequencies(rotary);
    bool same = true;
    for (std::size_t i = 0; i < divisors.size(); ++i) {
      same = same && std::abs(plain[i] / scaled[i] - divisors[i]) <= 1e-4f * divisors[i];
    }
    if (same) {
      return {{"rope_type", "llama3"},
              {"factor", factor},
              {"low_freq_factor", 1.0},
              {"high_freq_factor", 4.0},
              {"original_max_position_embeddings", 8192}};
    }
  }
  fail(ErrorCode::kUnsupported, "{}: these rotary frequencies are not Llama 3's (factor 8 or 32)",
       file.locate(kRopeDivisors));
}

// Stored as they are when the linear layers are 16 or 32 bits wide; quantized blocks read as float32.
std::string stored_dtype(const checkpoint::GgufSource& file) {
  const auto found = file.tensors().find("blk.0.attn_q.weight");
  return std::string(dtype_name(found == file.tensors().end() ? DType::kFloat32 : found->second.dtype));
}

}  // namespace

json hf_config_from_gguf(const checkpoint::GgufSource& file, const std::string& path) {
  const std::string architecture = file.metadata().get_string("general.architecture").value_or("");
  check(architecture == "llama" || architecture == "qwen2" || architecture == "qwen3",
        ErrorCode::kUnsupported, "{}: architecture '{}' is not supported (supported: llama, qwen2, qwen3)",
        path, architecture);
  const Metadata metadata(file.metadata(), path, architecture);
  check(metadata.count("expert_count").value_or(0) == 0, ErrorCode::kUnsupported,
        "{}: mixture-of-experts models are not supported", path);
  const std::string scaling = metadata.text("rope.scaling.type").value_or("none");
  check(scaling == "none" || scaling == "linear", ErrorCode::kUnsupported,
        "{}: rope scaling '{}' is not supported (supported: none, linear)", path, scaling);

  const auto embedding = file.tensors().find("token_embd.weight");
  check(embedding != file.tensors().end() && embedding->second.shape.size() == 2, ErrorCode::kCorruptData,
        "{}: tensor 'token_embd.weight' is missing or not a matrix", path);
  json config = {
      {"model_type", architecture},
      {"vocab_size", embedding->second.shape[0]},
      {"hidden_size", metadata.required("embedding_length")},
      {"intermediate_size", metadata.required("feed_forward_length")},
      {"num_hidden_layers", metadata.required("block_count")},
      {"num_attention_heads", metadata.required("attention.head_count")},
      {"num_key_value_heads",
       metadata.count("attention.head_count_kv").value_or(metadata.required("attention.head_count"))},
      {"max_position_embeddings", metadata.required("context_length")},
      {"rms_norm_eps", metadata.number("attention.layer_norm_rms_epsilon").value_or(1e-5)},
      {"rope_theta", metadata.number("rope.freq_base").value_or(10000.0)},
      {"tie_word_embeddings", !file.tensors().contains("output.weight")},
      {"hidden_act", "silu"},
      {"torch_dtype", stored_dtype(file)},
  };
  const auto heads = config.at("num_attention_heads").get<std::uint64_t>();
  const auto hidden = config.at("hidden_size").get<std::uint64_t>();
  check(heads > 0, ErrorCode::kCorruptData, "{}: there are no attention heads", path);
  config["head_dim"] = metadata.count("attention.key_length").value_or(hidden / heads);
  const auto rotated = metadata.count("rope.dimension_count");
  check(!rotated || *rotated == config.at("head_dim").get<std::uint64_t>(), ErrorCode::kUnsupported,
        "{}: rotary embedding over a part of the head is not supported", path);
  if (scaling == "linear") {
    config["rope_scaling"] = {{"rope_type", "linear"},
                              {"factor", metadata.number("rope.scaling.factor").value_or(1.0)}};
  }
  if (file.tensors().contains(kRopeDivisors)) config["rope_scaling"] = llama3_scaling(file, config);
  const bool bias = file.tensors().contains("blk.0.attn_q.bias");
  if (architecture != "qwen2") config["attention_bias"] = bias;
  for (const auto& [token, id] :
       {std::pair{"bos_token_id", file.metadata().get_uint("tokenizer.ggml.bos_token_id")},
        std::pair{"eos_token_id", file.metadata().get_uint("tokenizer.ggml.eos_token_id")}}) {
    if (id) config[token] = *id;
  }
  static const std::map<std::string, const char*> kArchitectures = {
      {"llama", "LlamaForCausalLM"}, {"qwen2", "Qwen2ForCausalLM"}, {"qwen3", "Qwen3ForCausalLM"}};
  config["architectures"] = {kArchitectures.at(architecture)};
  return config;
}

text::GgmlVocabulary vocabulary_from_gguf(const checkpoint::GgufSource& file) {
  const checkpoint::GgufMetadata& metadata = file.metadata();
  const auto id = [&](const char* key) -> std::optional<std::int64_t> {
    const auto value = metadata.get_uint(key);
    if (!value) return std::nullopt;
    return static_cast<std::int64_t>(*value);
  };
  text::GgmlVocabulary vocabulary;
  vocabulary.model = metadata.get_string("tokenizer.ggml.model").value_or("");
  vocabulary.pre = metadata.get_string("tokenizer.ggml.pre").value_or("");
  vocabulary.tokens = metadata.get_string_array("tokenizer.ggml.tokens").value_or(std::vector<std::string>());
  const auto types =
      metadata.get_int_array("tokenizer.ggml.token_type").value_or(std::vector<std::int64_t>());
  for (const std::int64_t type : types) vocabulary.token_types.push_back(static_cast<std::int32_t>(type));
  const auto scores = metadata.get_float_array("tokenizer.ggml.scores").value_or(std::vector<double>());
  vocabulary.scores.assign(scores.begin(), scores.end());
  vocabulary.merges = metadata.get_string_array("tokenizer.ggml.merges").value_or(std::vector<std::string>());
  vocabulary.bos_id = id("tokenizer.ggml.bos_token_id");
  vocabulary.eos_id = id("tokenizer.ggml.eos_token_id");
  vocabulary.eot_id = id("tokenizer.ggml.eot_token_id");
  vocabulary.unk_id = id("tokenizer.ggml.unknown_token_id");
  vocabulary.pad_id = id("tokenizer.ggml.padding_token_id");
  vocabulary.add_bos = metadata.get_bool("tokenizer.ggml.add_bos_token");
  vocabulary.add_eos = metadata.get_bool("tokenizer.ggml.add_eos_token");
  vocabulary.add_space_prefix = metadata.get_bool("tokenizer.ggml.add_space_prefix");
  vocabulary.chat_template = metadata.get_string("tokenizer.chat_template").value_or("");
  return vocabulary;
}

std::unique_ptr<checkpoint::TensorSource> hf_tensors_from_gguf(std::unique_ptr<checkpoint::GgufSource> file,
                                                               const json& config) {
  const bool permuted = config.at("model_type") == "llama";
  return std::make_unique<GgufTensors>(std::move(file), config.at("num_attention_heads").get<std::int64_t>(),
                                       config.at("num_key_value_heads").get<std::int64_t>(), permuted);
}

}  // namespace grille::models
