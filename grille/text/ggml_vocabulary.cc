#include "grille/text/ggml_vocabulary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "grille/base/error.h"
#include "grille/text/sentencepiece_merges.h"
#include "grille/text/utf8.h"

namespace grille::text {

namespace {

using Json = nlohmann::ordered_json;

enum TokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

constexpr std::size_t kMaxTokens = std::size_t{1} << 24;

Json split(const char* pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json sequence(const char* key, Json items) { return {{"type", "Sequence"}, {key, std::move(items)}}; }

// How text is cut into words, by the name that llama.cpp's converter writes. The patterns are those of
// the models' own tokenizer.json; "default" is llama.cpp's.
struct PreTokenizer {
  std::vector<std::string_view> names;
  Json pre_tokenizer;
  bool nfc = false;            // the text is normalized first
  bool ignore_merges = false;  // a word that is a token stays whole
  bool adds_bos = false;
};

const std::vector<PreTokenizer>& pre_tokenizers() {
  static const auto* const kAll = new std::vector<PreTokenizer>{
      {{"default", ""},
       sequence("pretokenizers",
                {split(R"([\p{P}\$\+<=>\^\~\|]+)"),
                 split(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"),
                 split(R"(\p{N}+)"), split(R"([0-9][0-9][0-9])"), byte_level(false)})},
      {{"gpt-2"}, byte_level(true)},
      {{"smollm"},
       sequence("pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)})},
      {{"llama-bpe", "llama3", "llama-v3"},
       sequence("pretokenizers", {split(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                                        R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
                                  byte_level(false)}),
       false,
       true,
       true},
      {{"qwen2"},
       sequence("pretokenizers", {split(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                                        R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
                                  byte_level(false)}),
       true},
      {{"tekken"},
       sequence(
           "pretokenizers",
           {split(R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
            byte_level(false)}),
       false,
       true},
  };
  return *kAll;
}

const PreTokenizer& pre_tokenizer_of(const GgmlVocabulary& v) {
  std::string known;
  for (const PreTokenizer& entry : pre_tokenizers()) {
    for (const std::string_view name : entry.names) {
      if (name == v.pre) return entry;
      if (!name.empty()) known += (known.empty() ? "" : ", ") + std::string(name);
    }
  }
  fail(ErrorCode::kUnsupported,
       "GGUF tokenizer: tokenizer.ggml.pre is '{}', known are {}: convert the model with its own "
       "tokenizer.json",
       v.pre, known);
}

// The vocabulary, checked, with the token of every id.
class Checked {
 public:
  explicit Checked(const GgmlVocabulary& v) : v_(v) {
    check(v.model == "gpt2" || v.model == "llama", ErrorCode::kUnsupported,
          "GGUF tokenizer: tokenizer.ggml.model is '{}', known are gpt2, llama", v.model);
    const std::size_t count = v.tokens.size();
    check(count > 0, ErrorCode::kCorruptData, "GGUF tokenizer: tokenizer.ggml.tokens is missing or empty");
    check(count <= kMaxTokens, ErrorCode::kCorruptData, "GGUF tokenizer: {} tokens, at most {} are read",
          count, kMaxTokens);
    check_length("token_type", v.token_types.size());
    check_length("scores", v.scores.size());
    ids_.reserve(count);
    for (std::size_t id = 0; id < count; ++id) {
      check(is_utf8(v.tokens[id]), ErrorCode::kCorruptData, "GGUF tokenizer: token {} is not UTF-8", id);
      const auto [other, added] = ids_.emplace(v.tokens[id], static_cast<std::int64_t>(id));
      check(added, ErrorCode::kCorruptData, "GGUF tokenizer: tokens {} and {} are both '{}'", other->second,
            id, v.tokens[id]);
    }
    for (const float score : v.scores) {
      check(std::isfinite(score), ErrorCode::kCorruptData, "GGUF tokenizer: a score is {}", score);
    }
  }

  const TokenIds& ids() const { return ids_; }

  // "" when the id is absent.
  std::string special(const std::optional<std::int64_t>& id, const char* what) const {
    if (!id) return "";
    check(*id >= 0 && static_cast<std::size_t>(*id) < v_.tokens.size(), ErrorCode::kCorruptData,
          "GGUF tokenizer: the {} id is {}, there are {} tokens", what, *id, v_.tokens.size());
    return v_.tokens[static_cast<std::size_t>(*id)];
  }

 private:
  void check_length(const char* array, std::size_t length) const {
    check(length == 0 || length == v_.tokens.size(), ErrorCode::kCorruptData,
          "GGUF tokenizer: tokenizer.ggml.{} has {} entries for {} tokens", array, length, v_.tokens.size());
  }

  const GgmlVocabulary& v_;
  TokenIds ids_;
};

bool adds_bos(const GgmlVocabulary& v) {
  const bool usual = v.model == "llama" || pre_tokenizer_of(v).adds_bos;
  return v.bos_id && v.add_bos.value_or(usual);
}

bool adds_eos(const GgmlVocabulary& v) { return v.eos_id && v.add_eos.value_or(false); }

bool prefixes_space(const GgmlVocabulary& v) { return v.add_space_prefix.value_or(v.model == "llama"); }

Json added_tokens(const GgmlVocabulary& v) {
  Json added = Json::array();
  for (std::size_t id = 0; id < v.tokens.size(); ++id) {
    const std::int32_t type = v.token_types.empty() ? kNormal : v.token_types[id];
    const auto same = [&](const std::optional<std::int64_t>& other) {
      return other && *other == static_cast<std::int64_t>(id);
    };
    const bool special = type == kControl || type == kUnknown || same(v.bos_id) || same(v.eos_id) ||
                         same(v.eot_id) || (v.model == "llama" && same(v.unk_id));
    if (!special && type != kUserDefined) continue;
    added.push_back({{"id", id},
                     {"content", v.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  return added;
}

Json gpt2_merges(const GgmlVocabulary& v, const TokenIds& ids) {
  check(!v.merges.empty(), ErrorCode::kCorruptData,
        "GGUF tokenizer: tokenizer.ggml.merges is missing or empty");
  Json merges = Json::array();
  std::string joined;
  for (std::size_t i = 0; i < v.merges.size(); ++i) {
    const std::string_view merge = v.merges[i];
    // A token may be a space, so the first byte never separates.
    const std::size_t space = merge.find(' ', 1);
    check(is_utf8(merge) && space != std::string_view::npos && space + 1 < merge.size(),
          ErrorCode::kCorruptData, "GGUF tokenizer: merge {} is not two tokens with a space between", i);
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined = std::string(left) + std::string(right);
    for (const std::string_view token : {left, right, std::string_view(joined)}) {
      check(ids.contains(token), ErrorCode::kCorruptData,
            "GGUF tokenizer: merge {} ('{}') needs '{}', which is no token", i, merge, token);
    }
    merges.push_back({left, right});
  }
  return merges;
}

Json sentencepiece_merge_list(const GgmlVocabulary& v, const TokenIds& ids) {
  check(!v.scores.empty(), ErrorCode::kCorruptData,
        "GGUF tokenizer: tokenizer.ggml.scores is missing or empty");
  Json merges = Json::array();
  for (const auto& [left, right] : sentencepiece_merges(v.tokens, v.scores, ids))
    merges.push_back({left, right});
  return merges;
}

// BOS and EOS around the text.
Json template_processing(const GgmlVocabulary& v, const Checked& checked) {
  Json single = Json::array();
  Json pair = Json::array();
  Json special = Json::object();
  const auto put_special = [&](const std::optional<std::int64_t>& id, int type, Json& list) {
    const std::string token = checked.special(id, "BOS or EOS");
    list.push_back({{"SpecialToken", {{"id", token}, {"type_id", type}}}});
    special[token] = {{"id", token}, {"ids", {*id}}, {"tokens", {token}}};
  };
  const auto put = [&](const char* text, int type, Json& list) {
    if (adds_bos(v)) put_special(v.bos_id, type, list);
    list.push_back({{"Sequence", {{"id", text}, {"type_id", type}}}});
    if (adds_eos(v)) put_special(v.eos_id, type, list);
  };
  put("A", 0, single);
  put("A", 0, pair);
  put("B", 1, pair);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

// The parts that make the two kinds of BPE differ.
Json byte_level_parts(const GgmlVocabulary& v, const Checked& checked) {
  const PreTokenizer& pre = pre_tokenizer_of(v);
  Json parts;
  parts["normalizer"] = pre.nfc ? Json{{"type", "NFC"}} : Json();
  parts["pre_tokenizer"] = pre.pre_tokenizer;
  if (prefixes_space(v) && pre.pre_tokenizer["type"] == "ByteLevel")
    parts["pre_tokenizer"]["add_prefix_space"] = true;
  parts["decoder"] = byte_level(true);
  parts["model"] = {{"type", "BPE"},
                    {"dropout", nullptr},
                    {"unk_token", nullptr},
                    {"continuing_subword_prefix", nullptr},
                    {"end_of_word_suffix", nullptr},
                    {"fuse_unk", false},
                    {"byte_fallback", false},
                    {"ignore_merges", pre.ignore_merges},
                    {"merges", gpt2_merges(v, checked.ids())}};
  return parts;
}

Json sentencepiece_parts(const GgmlVocabulary& v, const Checked& checked) {
  Json normalizers = Json::array();
  if (prefixes_space(v)) normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}});
  Json decoders = {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
  if (prefixes_space(v)) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  const std::string unk = checked.special(v.unk_id, "unknown-token");
  Json parts;
  parts["normalizer"] = sequence("normalizers", std::move(normalizers));
  parts["pre_tokenizer"] = nullptr;
  parts["decoder"] = sequence("decoders", std::move(decoders));
  parts["model"] = {{"type", "BPE"},
                    {"dropout", nullptr},
                    {"unk_token", unk.empty() ? Json() : Json(unk)},
                    {"continuing_subword_prefix", nullptr},
                    {"end_of_word_suffix", nullptr},
                    {"fuse_unk", true},
                    {"byte_fallback", true},
                    {"ignore_merges", false},
                    {"merges", sentencepiece_merge_list(v, checked.ids())}};
  return parts;
}

}  // namespace

std::string tokenizer_json(const GgmlVocabulary& vocabulary) {
  const Checked checked(vocabulary);
  for (const auto* id : {&vocabulary.bos_id, &vocabulary.eos_id, &vocabulary.eot_id, &vocabulary.unk_id}) {
    checked.special(*id, "special token");
  }
  Json parts = vocabulary.model == "llama" ? sentencepiece_parts(vocabulary, checked)
                                           : byte_level_parts(vocabulary, checked);
  // A map of json would look for every earlier key at each insertion.
  nlohmann::json vocab = nlohmann::json::object();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) vocab[vocabulary.tokens[id]] = id;

  Json file;
  file["version"] = "1.0";
  file["truncation"] = nullptr;
  file["padding"] = nullptr;
  file["added_tokens"] = added_tokens(vocabulary);
  file["normalizer"] = std::move(parts["normalizer"]);
  file["pre_tokenizer"] = std::move(parts["pre_tokenizer"]);
  file["post_processor"] = template_processing(vocabulary, checked);
  file["decoder"] = std::move(parts["decoder"]);
  Json model = std::move(parts["model"]);
  std::string text = file.dump();
  std::string model_text = model.dump();
  text.pop_back();
  model_text.pop_back();
  return text + ",\"model\":" + model_text + ",\"vocab\":" + vocab.dump() + "}}";
}

std::string tokenizer_config_json(const GgmlVocabulary& vocabulary) {
  const Checked checked(vocabulary);
  Json config;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  const auto put = [&](const char* key, const std::optional<std::int64_t>& id) {
    const std::string token = checked.special(id, key);
    if (!token.empty()) config[key] = token;
  };
  put("bos_token", vocabulary.bos_id);
  put("eos_token", vocabulary.eos_id);
  put("unk_token", vocabulary.unk_id);
  put("pad_token", vocabulary.pad_id);
  config["add_bos_token"] = adds_bos(vocabulary);
  config["add_eos_token"] = adds_eos(vocabulary);
  config["clean_up_tokenization_spaces"] = false;
  if (!vocabulary.chat_template.empty()) {
    check(is_utf8(vocabulary.chat_template), ErrorCode::kCorruptData,
          "GGUF tokenizer: the chat template is not UTF-8");
    config["chat_template"] = vocabulary.chat_template;
  }
  return config.dump(2) + "\n";
}

Tokenizer tokenizer_of(const GgmlVocabulary& vocabulary) {
  const Checked checked(vocabulary);
  TokenizerConfig config;
  config.bos_token = checked.special(vocabulary.bos_id, "BOS");
  config.eos_token = checked.special(vocabulary.eos_id, "EOS");
  if (vocabulary.eot_id) config.generation_eos_ids.push_back(static_cast<std::int32_t>(*vocabulary.eot_id));
  if (!vocabulary.chat_template.empty()) config.chat_templates["default"] = vocabulary.chat_template;
  return Tokenizer::from_json(tokenizer_json(vocabulary), std::move(config));
}

}  // namespace grille::text
