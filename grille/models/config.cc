#include "grille/models/config.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "grille/base/error.h"

namespace grille::models {
namespace {

using nlohmann::json;

// Typed access to one config file; every error names the file and the key.
class Reader {
 public:
  Reader(const json& object, std::string file) : object_(object), file_(std::move(file)) {
    check(object.is_object(), ErrorCode::kCorruptData, "{}: expected a JSON object", file_);
  }

  bool has(const char* key) const { return object_.contains(key) && !object_.at(key).is_null(); }

  std::int64_t dimension(const char* key) const {
    check(has(key), ErrorCode::kCorruptData, "{}: '{}' is missing", file_, key);
    return dimension_value(key);
  }
  std::int64_t dimension(const char* key, std::int64_t otherwise) const {
    return has(key) ? dimension_value(key) : otherwise;
  }

  double number(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    const json& value = object_.at(key);
    check(value.is_number() && value.get<double>() > 0 && value.get<double>() < 1e12, ErrorCode::kCorruptData,
          "{}: '{}' must be a positive number, got {}", file_, key, value.dump());
    return value.get<double>();
  }

  bool flag(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    check(object_.at(key).is_boolean(), ErrorCode::kCorruptData, "{}: '{}' must be true or false, got {}",
          file_, key, object_.at(key).dump());
    return object_.at(key).get<bool>();
  }

  std::string text(const char* key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    check(object_.at(key).is_string(), ErrorCode::kCorruptData, "{}: '{}' must be a string, got {}", file_,
          key, object_.at(key).dump());
    return object_.at(key).get<std::string>();
  }

  const json& at(const char* key) const { return object_.at(key); }
  const std::string& file() const { return file_; }

 private:
  std::int64_t dimension_value(const char* key) const {
    const json& value = object_.at(key);
    check(value.is_number_integer(), ErrorCode::kCorruptData, "{}: '{}' must be a whole number, got {}",
          file_, key, value.dump());
    const bool fits =
        !value.is_number_unsigned() || value.get<std::uint64_t>() <= std::numeric_limits<std::int32_t>::max();
    check(fits && value.get<std::int64_t>() >= 1 &&
              value.get<std::int64_t>() <= std::numeric_limits<std::int32_t>::max(),
          ErrorCode::kCorruptData, "{}: '{}' must be between 1 and 2^31 - 1, got {}", file_, key,
          value.dump());
    return value.get<std::int64_t>();
  }

  const json& object_;
  std::string file_;
};

void refuse(const Reader& reader, const char* key, const std::string& why) {
  fail(ErrorCode::kUnsupported, "{}: {} (key '{}')", reader.file(), why, key);
}

void parse_rope_scaling(const Reader& rope, nn::RotaryConfig& rotary, std::int64_t max_positions) {
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  rotary.theta = rope.number("rope_theta", rotary.theta);
  if (rope.has("partial_rotary_factor") && rope.number("partial_rotary_factor", 1.0) != 1.0) {
    refuse(rope, "partial_rotary_factor", "rotary embedding over a part of head_dim is not supported");
  }
  if (type == "default") return;
  rotary.factor = rope.number("factor", 1.0);
  if (type == "linear") {
    rotary.scaling = nn::RotaryConfig::Scaling::kLinear;
  } else if (type == "llama3") {
    rotary.scaling = nn::RotaryConfig::Scaling::kLlama3;
    rotary.low_frequency_factor = rope.number("low_freq_factor", 1.0);
    rotary.high_frequency_factor = rope.number("high_freq_factor", 4.0);
    rotary.original_max_positions =
        rope.number("original_max_position_embeddings", static_cast<double>(max_positions));
    check(rotary.high_frequency_factor > rotary.low_frequency_factor, ErrorCode::kCorruptData,
          "{}: rope 'high_freq_factor' must be above 'low_freq_factor'", rope.file());
  } else {
    fail(ErrorCode::kUnsupported, "{}: rope type '{}' is not supported (supported: default, linear, llama3)",
         rope.file(), type);
  }
}

void parse_rotary(const Reader& reader, DecoderConfig& config) {
  config.rotary.head_dim = config.head_dim;
  config.rotary.theta = reader.number("rope_theta", 10000.0);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {  // transformers 4, transformers 5
    if (!reader.has(key)) continue;
    parse_rope_scaling(Reader(reader.at(key), reader.file()), config.rotary, config.max_positions);
  }
  if (reader.has("partial_rotary_factor") && reader.number("partial_rotary_factor", 1.0) != 1.0) {
    refuse(reader, "partial_rotary_factor", "rotary embedding over a part of head_dim is not supported");
  }
}

// Within its window a sliding-window layer is an ordinary one, so the context is limited to the window.
void parse_sliding_window(const Reader& reader, DecoderConfig& config) {
  const bool used = config.family == "mistral" || reader.flag("use_sliding_window", false);
  if (used && reader.has("sliding_window")) {
    config.max_positions = std::min(config.max_positions, reader.dimension("sliding_window"));
  }
}

DType parse_dtype(const Reader& reader) {
  std::string name = reader.text("dtype", reader.text("torch_dtype", "float32"));
  if (name.starts_with("torch.")) name = name.substr(6);
  const std::optional<DType> dtype = dtype_from_name(name);
  check(dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16,
        ErrorCode::kUnsupported, "{}: dtype '{}' is not supported (supported: float32, bfloat16, float16)",
        reader.file(), name);
  return *dtype;
}

std::string parse_family(const Reader& reader) {
  const std::string family = reader.text("model_type", "");
  for (const char* known : {"llama", "mistral", "qwen2", "qwen3"}) {
    if (family == known) return family;
  }
  std::string architecture = "none";
  if (reader.has("architectures") && reader.at("architectures").is_array() &&
      !reader.at("architectures").empty()) {
    architecture = reader.at("architectures").front().dump();
  }
  fail(ErrorCode::kUnsupported,
       "{}: model_type '{}' (architecture {}) is not supported (supported: llama, mistral, qwen2, qwen3)",
       reader.file(), family, architecture);
}

}  // namespace

DecoderConfig parse_config(const json& object, const std::string& file) {
  const Reader reader(object, file);
  DecoderConfig config;
  config.family = parse_family(reader);
  config.vocab_size = reader.dimension("vocab_size");
  config.hidden_size = reader.dimension("hidden_size");
  config.intermediate_size = reader.dimension("intermediate_size");
  config.num_layers = reader.dimension("num_hidden_layers");
  config.num_heads = reader.dimension("num_attention_heads");
  config.num_kv_heads = reader.dimension("num_key_value_heads", config.num_heads);
  check(reader.has("head_dim") || config.hidden_size % config.num_heads == 0, ErrorCode::kCorruptData,
        "{}: hidden_size {} is not a multiple of num_attention_heads {} and there is no head_dim", file,
        config.hidden_size, config.num_heads);
  config.head_dim =
      reader.dimension("head_dim", std::max<std::int64_t>(config.hidden_size / config.num_heads, 1));
  config.max_positions = reader.dimension("max_position_embeddings", 2048);
  config.rms_norm_eps = reader.number("rms_norm_eps", 1e-6);
  config.tie_word_embeddings = reader.flag("tie_word_embeddings", false);
  config.dtype = parse_dtype(reader);
  config.qkv_bias = reader.flag("attention_bias", config.family == "qwen2");
  config.output_bias = config.family == "qwen2" ? false : config.qkv_bias;
  config.mlp_bias = reader.flag("mlp_bias", false);
  config.query_key_norm = config.family == "qwen3";
  parse_rotary(reader, config);
  parse_sliding_window(reader, config);

  check(config.num_heads % config.num_kv_heads == 0, ErrorCode::kCorruptData,
        "{}: num_attention_heads {} is not a multiple of num_key_value_heads {}", file, config.num_heads,
        config.num_kv_heads);
  check(config.head_dim % 2 == 0 && config.head_dim <= 256, ErrorCode::kUnsupported,
        "{}: head_dim {} is not supported (supported: even, at most 256)", file, config.head_dim);
  const std::string activation = reader.text("hidden_act", reader.text("hidden_activation", "silu"));
  check(activation == "silu" || activation == "swish", ErrorCode::kUnsupported,
        "{}: activation '{}' is not supported (supported: silu)", file, activation);
  for (const char* key :
       {"attn_logit_softcapping", "final_logit_softcapping", "num_local_experts", "num_experts"}) {
    if (reader.has(key)) refuse(reader, key, "this feature is not supported");
  }
  return config;
}

}  // namespace grille::models
