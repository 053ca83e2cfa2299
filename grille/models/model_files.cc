#include "grille/models/model_files.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <set>

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/checkpoint/json_file.h"
#include "grille/checkpoint/safetensors.h"
#include "grille/models/decoder.h"
#include "grille/models/dummy_tensors.h"
#include "grille/models/gguf_model.h"
#include "grille/text/text_files.h"

namespace grille::models {
namespace {

namespace fs = std::filesystem;
// Files that travel with a model when its weights are rewritten.
constexpr std::array kSideFiles = {"tokenizer.json",
                                   "tokenizer_config.json",
                                   "special_tokens_map.json",
                                   "generation_config.json",
                                   "chat_template.jinja",
                                   "vocab.json",
                                   "merges.txt",
                                   "tokenizer.model",
                                   "added_tokens.json"};

// The hub's cache: HF_HUB_CACHE, or HF_HOME/hub, or ~/.cache/huggingface/hub.
fs::path hub_cache() {
  if (const char* cache = std::getenv("HF_HUB_CACHE"); cache != nullptr && *cache != '\0') return cache;
  if (const char* home = std::getenv("HF_HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / "hub";
  const char* home = std::getenv("HOME");
  return fs::path(home != nullptr ? home : ".") / ".cache" / "huggingface" / "hub";
}

bool is_hub_id(const std::string& model) {
  const std::size_t slash = model.find('/');
  return slash != std::string::npos && slash > 0 && slash + 1 < model.size() &&
         model.find('/', slash + 1) == std::string::npos && model.find("..") == std::string::npos &&
         model.front() != '.' && model.front() != '~';
}

// The snapshot of "org/name" that refs/main points to, if it is there.
std::optional<fs::path> hub_snapshot(const std::string& id) {
  std::string folder = "models--" + id;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path root = hub_cache() / folder;
  std::ifstream reference(root / "refs" / "main");
  std::string commit;
  if (!(reference >> commit) || commit.find_first_not_of("0123456789abcdef") != std::string::npos)
    return std::nullopt;
  const fs::path snapshot = root / "snapshots" / commit;
  if (!fs::is_directory(snapshot)) return std::nullopt;
  return snapshot;
}

fs::path locate_model(const std::string& model) {
  if (fs::exists(model)) return model;
  if (is_hub_id(model)) {
    if (const auto snapshot = hub_snapshot(model)) return *snapshot;
    fail(ErrorCode::kNotFound,
         "{}: no such file or folder, and not in the local hub cache; get it with: hf download {}", model,
         model);
  }
  fail(ErrorCode::kNotFound, "{}: no such file or folder", model);
}

void read_config(ModelFiles& files) {
  const fs::path config = files.path / "config.json";
  check(fs::exists(config), ErrorCode::kNotFound,
        "{}: no config.json in this folder; expected a Hugging Face model", files.path.string());
  files.hf_config = checkpoint::read_json_file(config);
  files.config = parse_config(files.hf_config, config.string());
  files.compression = checkpoint::parse_compression_config(files.hf_config, config.string());
}

void open_directory(ModelFiles& files) {
  read_config(files);
  files.tensors = std::make_unique<checkpoint::SafetensorsSource>(files.path);
}

void open_gguf(ModelFiles& files) {
  auto file = std::make_unique<checkpoint::GgufSource>(files.path);
  files.from_gguf = true;
  files.hf_config = hf_config_from_gguf(*file, files.path.string());
  files.config = parse_config(files.hf_config, files.path.string());
  if (file->metadata().has("tokenizer.ggml.model")) files.gguf_vocabulary = vocabulary_from_gguf(*file);
  files.tensors = hf_tensors_from_gguf(std::move(file), files.hf_config);
}

struct Expected {
  std::set<std::string> modules;  // linear layers, embedding, head
  std::set<std::string> tensors;  // norms and biases, by full name
};

Expected expected_names(const DecoderConfig& config) {
  Expected expected;
  expected.modules.insert("model.embed_tokens");
  expected.tensors.insert("model.norm.weight");
  if (!config.tie_word_embeddings) expected.modules.insert("lm_head");
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    expected.tensors.insert(prefix + "input_layernorm.weight");
    expected.tensors.insert(prefix + "post_attention_layernorm.weight");
    if (config.query_key_norm) {
      expected.tensors.insert(prefix + "self_attn.q_norm.weight");
      expected.tensors.insert(prefix + "self_attn.k_norm.weight");
    }
    for (const Slot slot : kSlots) {
      expected.modules.insert(module_name(layer, slot));
      if (slot_has_bias(config, slot)) expected.tensors.insert(module_name(layer, slot) + ".bias");
    }
  }
  return expected;
}

// Tensors that checkpoints carry and that no program reads: frequencies that follow from the
// configuration, and a second copy of a tied head.
bool is_redundant(const std::string& name, const DecoderConfig& config) {
  return name.ends_with(".rotary_emb.inv_freq") || (config.tie_word_embeddings && name == "lm_head.weight");
}

void check_tensor_names(const ModelFiles& files) {
  // Before a list of names is made of the number.
  const std::size_t count = files.tensors->tensors().size();
  check(static_cast<std::size_t>(files.config.num_layers) <= count, ErrorCode::kCorruptData,
        "{}: the configuration has {} layers (num_hidden_layers), the weights only {} tensors",
        files.path.string(), files.config.num_layers, count);
  const Expected expected = expected_names(files.config);
  std::set<std::string> missing_modules = expected.modules;
  std::set<std::string> missing_tensors = expected.tensors;
  for (const auto& [name, info] : files.tensors->tensors()) {
    if (missing_tensors.erase(name) > 0 || is_redundant(name, files.config)) continue;
    const std::size_t dot = name.rfind('.');
    const std::string module = name.substr(0, dot == std::string::npos ? 0 : dot);
    const std::string suffix = name.substr(dot == std::string::npos ? 0 : dot);
    // Which of them must be there depends on the format, and is checked when the layer is read.
    const auto suffixes = checkpoint::linear_suffixes();
    const bool known_suffix = std::find(suffixes.begin(), suffixes.end(), suffix) != suffixes.end();
    check(expected.modules.contains(module) && known_suffix, ErrorCode::kCorruptData,
          "{} is not part of a {} model with this configuration, and would be ignored",
          files.tensors->locate(name), files.config.family);
    missing_modules.erase(module);
  }
  check(missing_tensors.empty(), ErrorCode::kCorruptData, "{}: tensor '{}' is missing ({} in all)",
        files.path.string(), missing_tensors.empty() ? "" : *missing_tensors.begin(), missing_tensors.size());
  check(missing_modules.empty(), ErrorCode::kCorruptData, "{}: the weight of '{}' is missing ({} in all)",
        files.path.string(), missing_modules.empty() ? "" : *missing_modules.begin(), missing_modules.size());
}

}  // namespace

ModelFiles open_model(const std::string& model) {
  ModelFiles files;
  files.path = locate_model(model);
  if (fs::is_directory(files.path)) {
    open_directory(files);
  } else {
    check(files.path.extension() == ".gguf", ErrorCode::kUnsupported,
          "{}: expected a Hugging Face folder or a .gguf file", files.path.string());
    open_gguf(files);
  }
  check_tensor_names(files);
  return files;
}

ModelFiles open_dummy_model(const std::string& model, std::uint64_t seed) {
  ModelFiles files;
  files.path = locate_model(model);
  check(fs::is_directory(files.path), ErrorCode::kUnsupported,
        "{}: expected a folder with a config.json for dummy weights", files.path.string());
  read_config(files);
  files.tensors = std::make_unique<DummyTensors>(files.config, files.compression, seed);
  return files;
}

text::Tokenizer load_tokenizer(const ModelFiles& files) {
  check(!files.from_gguf || files.gguf_vocabulary, ErrorCode::kNotFound, "{}: the file holds no tokenizer",
        files.path.string());
  const text::Tokenizer tokenizer = files.gguf_vocabulary ? text::tokenizer_of(*files.gguf_vocabulary)
                                                          : text::Tokenizer::from_directory(files.path);
  check(tokenizer.end_id() <= files.config.vocab_size, ErrorCode::kCorruptData,
        "{}: the tokenizer has ids up to {}, the model's vocabulary ends at {}; they do not belong together",
        files.path.string(), tokenizer.end_id() - 1, files.config.vocab_size - 1);
  return tokenizer;
}

std::map<std::string, std::string> side_files(const ModelFiles& files) {
  std::map<std::string, std::string> contents;
  if (files.gguf_vocabulary) {
    contents["tokenizer.json"] = text::tokenizer_json(*files.gguf_vocabulary);
    contents["tokenizer_config.json"] = text::tokenizer_config_json(*files.gguf_vocabulary);
  }
  if (files.from_gguf) return contents;
  for (const char* name : kSideFiles) {
    if (fs::exists(files.path / name)) contents[name] = text::read_file(files.path / name);
  }
  return contents;
}

}  // namespace grille::models
