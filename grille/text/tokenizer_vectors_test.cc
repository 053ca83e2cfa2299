// Ids that other implementations gave, for the tokenizers of real models.
#include <gtest/gtest.h>

#include <sstream>

#include "grille/text/sha256.h"
#include "grille/text/test_data.h"

namespace grille::text::testing {
namespace {

using Ids = std::vector<std::int32_t>;

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find(separator, begin)) != std::string::npos;) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

struct LlamaCppCase {
  std::string file;
  std::string tokenizer;
};

class LlamaCppVectors : public ::testing::TestWithParam<LlamaCppCase> {};

TEST_P(LlamaCppVectors, EncodesToTheSameIds) {
  GRILLE_NEEDS_SHARED_DATA();
  const fs::path base =
      shared_data() / "tokenizers/vectors/llama.cpp" / ("ggml-vocab-" + GetParam().file + ".gguf");
  auto texts = split(read_file(base.string() + ".inp"), "\n__ggml_vocab_test__\n");
  const auto lines = split(read_file(base.string() + ".out"), "\n");
  const Tokenizer& tokenizer = shared_tokenizer(GetParam().tokenizer);
  // Most files end in a separator.
  if (texts.back().empty()) texts.pop_back();
  ASSERT_EQ(texts.size(), 46u);
  ASSERT_GE(lines.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::istringstream line(lines[i]);
    Ids expected;
    for (std::int32_t id; line >> id;) expected.push_back(id);
    EXPECT_EQ(tokenizer.encode(texts[i], false), expected)
        << GetParam().file << " case " << i << ": " << texts[i];
  }
}

INSTANTIATE_TEST_SUITE_P(All, LlamaCppVectors,
                         ::testing::Values(LlamaCppCase{"llama-bpe", "llama-3.1"},
                                           LlamaCppCase{"llama-spm", "llama-2"},
                                           LlamaCppCase{"qwen2", "qwen3"}, LlamaCppCase{"gpt-2", "gpt2"},
                                           LlamaCppCase{"gemma-4", "gemma-3"}));

// transformers' clean_up_tokenization, which the vectors' decoded texts went through where a model's
// configuration asks for it. grille's decode gives what the ids say.
std::string clean_up(std::string text) {
  const std::vector<std::pair<std::string, std::string>> rules = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : rules) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

TEST(TransformersJsVectors, EncodeAndDecodeAgree) {
  GRILLE_NEEDS_SHARED_DATA();
  int cases = 0;
  const auto file = shared_json("tokenizers/vectors/transformers.js/tokenization.json");
  for (const auto& [model, test] : file["tests"].items()) {
    if (!test.contains("use_with") || !test["use_with"].is_string()) continue;
    const std::string name = test["use_with"];
    const Tokenizer& tokenizer = shared_tokenizer(name);
    const auto config = nlohmann::json::parse(
        read_gzip(shared_data() / "tokenizers" / name /
                  (name == "gemma-3" ? "tokenizer_config.json.gz" : "tokenizer_config.json")));
    const bool cleans = config.value("clean_up_tokenization_spaces", false);
    const bool special = test.value("add_special_tokens", true);
    for (const auto& [label, one] : test["cases"].items()) {
      SCOPED_TRACE(model + " " + label);
      ++cases;
      const Ids expected = one["ids"].get<Ids>();
      EXPECT_EQ(tokenizer.encode(one["text"].get<std::string>(), special), expected);
      const std::string decoded = tokenizer.decode(expected);
      EXPECT_EQ(cleans ? clean_up(decoded) : decoded, one["decoded"].get<std::string>());
    }
  }
  EXPECT_GE(cases, 150);
}

TEST(SwiftTransformersVectors, LongFrenchTextEncodesToTheSameIds) {
  GRILLE_NEEDS_SHARED_DATA();
  const std::vector<std::pair<std::string, std::string>> files = {{"gpt2_encoded_tokens.json", "gpt2"},
                                                                  {"llama_encoded.json", "llama-2"},
                                                                  {"llama_3.2_encoded.json", "llama-3.1"}};
  for (const auto& [file, name] : files) {
    const auto vector = shared_json("tokenizers/vectors/swift-transformers/" + file);
    const Ids expected = vector["token_ids"].get<Ids>();
    const Tokenizer& tokenizer = shared_tokenizer(name);
    const std::string text = vector["text"];
    EXPECT_TRUE(tokenizer.encode(text, true) == expected || tokenizer.encode(text, false) == expected)
        << file;
  }
}

TEST(WikiTextVectors, WholeFilesGiveTheKnownIds) {
  GRILLE_NEEDS_SHARED_DATA();
  const auto known = shared_json("wikitext-2/token_counts.json");
  const std::string raw = read_file(shared_data() / "wikitext-2/wiki.test.raw");
  for (const auto& [name, forms] : known["counts"].items()) {
    if (name == "smollm2-135m") continue;  // stored wrong; ggml_vocabulary_test has the model's own
    if (!fs::exists(shared_data() / "tokenizers" / name)) continue;
    for (const auto& [form, expected] : forms.items()) {
      const Ids ids = shared_tokenizer(name).encode(form == "joined" ? join_hf_wikitext(raw) : raw);
      EXPECT_EQ(ids.size(), expected["tokens"].get<std::size_t>()) << name << " " << form;
      const std::string_view bytes(reinterpret_cast<const char*>(ids.data()),
                                   ids.size() * sizeof(std::int32_t));
      EXPECT_EQ(sha256_hex(bytes), expected["sha256_u32le"].get<std::string>()) << name << " " << form;
    }
  }
}

}  // namespace
}  // namespace grille::text::testing
