#include "grille/text/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "grille/text/test_data.h"

namespace grille::text::testing {
namespace {

using Ids = std::vector<std::int32_t>;

TokenizerConfig byte_config() {
  TokenizerConfig config;
  config.bos_token = "<s>";
  config.eos_token = "</s>";
  return config;
}

Tokenizer byte_tokenizer(TokenizerConfig config = byte_config()) {
  return Tokenizer::from_json(tokenizer_json(byte_vocabulary()), std::move(config));
}

TEST(Tokenizer, EncodesAndDecodesItsOwnText) {
  const Tokenizer tokenizer = byte_tokenizer();
  const Ids ids = tokenizer.encode(" the low é");
  EXPECT_EQ(ids, (Ids{258, 32, 'l', 260, 32, 0xC3, 0xA9}));
  EXPECT_EQ(tokenizer.decode(ids), " the low é");
  EXPECT_EQ(tokenizer.vocab_size(), 263);
  EXPECT_EQ(tokenizer.end_id(), 263);
  EXPECT_EQ(tokenizer.token_to_id("the"), 257);
  EXPECT_EQ(tokenizer.token_to_id("absent"), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(257), "the");
  EXPECT_EQ(tokenizer.id_to_token(9999), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(-1), std::nullopt);
}

TEST(Tokenizer, SpecialTokensInTheTextAreParsed) {
  const Tokenizer tokenizer = byte_tokenizer();
  EXPECT_EQ(tokenizer.encode("a<s>b</s>"), (Ids{'a', 261, 'b', 262}));
  EXPECT_EQ(tokenizer.decode(Ids{'a', 261, 'b', 262}, true), "ab");
  EXPECT_EQ(tokenizer.decode(Ids{'a', 261, 'b', 262}, false), "a<s>b</s>");
  EXPECT_TRUE(tokenizer.is_special(261));
  EXPECT_FALSE(tokenizer.is_special(260));
}

TEST(Tokenizer, TheConfigurationDecidesAboutBosAndEos) {
  TokenizerConfig config = byte_config();
  config.add_bos_token = true;
  config.add_eos_token = true;
  EXPECT_EQ(byte_tokenizer(config).encode("a"), (Ids{261, 'a', 262}));
  EXPECT_EQ(byte_tokenizer(config).encode("a", false), (Ids{'a'}));
  EXPECT_TRUE(byte_tokenizer(config).adds_bos());

  GgmlVocabulary vocabulary = byte_vocabulary();
  vocabulary.add_bos = true;
  const std::string json = tokenizer_json(vocabulary);
  EXPECT_EQ(Tokenizer::from_json(json, byte_config()).encode("a"), (Ids{261, 'a'}));
  config.add_bos_token = false;
  config.add_eos_token.reset();
  EXPECT_EQ(Tokenizer::from_json(json, config).encode("a"), (Ids{'a'}));
}

TEST(Tokenizer, StoredTruncationAndPaddingAreOff) {
  auto json = nlohmann::json::parse(tokenizer_json(byte_vocabulary()));
  json["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  json["padding"] = {
      {"strategy", {{"Fixed", 9}}}, {"direction", "Right"}, {"pad_to_multiple_of", nullptr}, {"pad_id", 0},
      {"pad_type_id", 0},           {"pad_token", "!"}};
  EXPECT_EQ(Tokenizer::from_json(json.dump(), byte_config()).encode("abcd"), (Ids{'a', 'b', 'c', 'd'}));
}

TEST(Tokenizer, ToJsonRoundTrips) {
  const Tokenizer tokenizer = byte_tokenizer();
  const Tokenizer again = Tokenizer::from_json(tokenizer.to_json(), byte_config());
  EXPECT_EQ(again.encode("the low 12 <s>"), tokenizer.encode("the low 12 <s>"));
  EXPECT_EQ(again.to_json(), tokenizer.to_json());
}

TEST(Tokenizer, BadArgumentsAreErrors) {
  const Tokenizer tokenizer = byte_tokenizer();
  EXPECT_NE(error_of([&] { tokenizer.encode("ab\xff"); }, ErrorCode::kInvalidArgument).find("byte 2"),
            std::string::npos);
  error_of([&] { tokenizer.decode(Ids{-1}); }, ErrorCode::kInvalidArgument);
  EXPECT_EQ(tokenizer.decode(Ids{'a', 100'000, 'b'}), "ab");
  EXPECT_EQ(tokenizer.decode({}), "");
  TokenizerConfig config;
  config.bos_token = "<absent>";
  EXPECT_NE(error_of([&] { byte_tokenizer(config); }, ErrorCode::kCorruptData).find("<absent>"),
            std::string::npos);
}

TEST(TokenizerDirectory, ReadsEveryFormOfTheFiles) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", tokenizer_json(byte_vocabulary()));
  EXPECT_EQ(Tokenizer::from_directory(folder.path()).bos_id(), std::nullopt);

  folder.write("special_tokens_map.json",
               R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "<s>"})");
  folder.write("tokenizer_config.json", R"({"eos_token": "</s>", "pad_token": null, "add_bos_token": true,
      "chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]})");
  folder.write("generation_config.json", R"({"eos_token_id": [262, 257]})");
  Tokenizer tokenizer = Tokenizer::from_directory(folder.path());
  EXPECT_EQ(tokenizer.bos_id(), 261);
  EXPECT_EQ(tokenizer.eos_ids(), (Ids{262, 257}));
  EXPECT_EQ(tokenizer.encode("a"), (Ids{261, 'a'}));
  EXPECT_EQ(tokenizer.chat_template(), "D");
  EXPECT_EQ(tokenizer.chat_template("tool_use"), "T");
  EXPECT_EQ(tokenizer.chat_template("absent"), "");

  folder.write("generation_config.json", R"({"eos_token_id": 7})");
  folder.write("chat_template.jinja", "J");
  tokenizer = Tokenizer::from_directory(folder.path());
  EXPECT_EQ(tokenizer.eos_ids(), (Ids{262, 7}));
  EXPECT_EQ(tokenizer.chat_template(), "J");

  fs::remove(folder.path() / "generation_config.json");
  folder.write("config.json", R"({"eos_token_id": 9})");
  EXPECT_EQ(Tokenizer::from_directory(folder.path()).eos_ids(), (Ids{262, 9}));
}

TEST(TokenizerDirectory, WrongFilesAreNamed) {
  const TemporaryFolder folder;
  const auto load = [&] { Tokenizer::from_directory(folder.path()); };
  EXPECT_NE(error_of(load, ErrorCode::kNotFound).find("tokenizer.json"), std::string::npos);
  folder.write("tokenizer.model", "");
  error_of(load, ErrorCode::kUnsupported);
  folder.write("tokenizer.json", "{}");
  EXPECT_NE(error_of(load, ErrorCode::kCorruptData).find(folder.path().string()), std::string::npos);
  folder.write("tokenizer.json", tokenizer_json(byte_vocabulary()));
  for (const char* config : {"[", "[1]", R"({"bos_token": 3})", R"({"bos_token": {"content": 1}})",
                             R"({"chat_template": 1})", R"({"chat_template": [{"name": "x"}]})"}) {
    folder.write("tokenizer_config.json", config);
    EXPECT_NE(error_of(load, ErrorCode::kCorruptData).find("tokenizer_config.json"), std::string::npos)
        << config;
  }
  const std::string deep =
      "{\"eos_token_id\": " + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}";
  folder.write("tokenizer_config.json", deep);
  EXPECT_NE(error_of(load, ErrorCode::kCorruptData).find("tokenizer_config.json"), std::string::npos);
  folder.write("tokenizer_config.json", "{}");
  folder.write("generation_config.json", deep);
  EXPECT_NE(error_of(load, ErrorCode::kCorruptData).find("generation_config.json"), std::string::npos);
  for (const char* config : {R"({"eos_token_id": "x"})", R"({"eos_token_id": [1, -1]})",
                             R"({"eos_token_id": 1e30})", R"({"eos_token_id": 99999999999})"}) {
    folder.write("generation_config.json", config);
    EXPECT_NE(error_of(load, ErrorCode::kCorruptData).find("generation_config.json"), std::string::npos)
        << config;
  }
}

TEST(TokenizerHostile, RandomBytesAndDeepNestingAreErrors) {
  std::mt19937 random(1);
  std::string bytes;
  for (int i = 0; i < 200; ++i) {
    bytes.resize(random() % 300);
    for (char& c : bytes) c = static_cast<char>(random());
    error_of([&] { Tokenizer::from_json(bytes); }, ErrorCode::kCorruptData);
  }
  for (const char* open : {"[", "{\"a\":", "{\"model\":{\"type\":\"BPE\",\"vocab\":"}) {
    std::string deep;
    for (int i = 0; i < 200'000; ++i) deep += open;
    error_of([&] { Tokenizer::from_json(deep); }, ErrorCode::kCorruptData);
  }
  error_of([] { Tokenizer::from_json(""); }, ErrorCode::kCorruptData);
}

// Changes of one to four bytes of a good file: it loads, or it is an error; what loads still works or
// throws Error.
TEST(TokenizerHostile, MutatedFilesLoadOrFailCleanly) {
  const std::string good = tokenizer_json(byte_vocabulary());
  std::mt19937 random(2);
  const std::string alphabet = "\"{}[],:0123456789-eaT<\\ \n";
  int loaded = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bad = good;
    for (std::uint32_t edits = 1 + random() % 4; edits > 0; --edits) {
      // The settings are at the front and the back; the vocabulary between is less interesting.
      const std::size_t reach = random() % 2 ? 2000 : bad.size();
      bad[random() % std::min(reach, bad.size())] = alphabet[random() % alphabet.size()];
    }
    try {
      const Tokenizer tokenizer = Tokenizer::from_json(bad);
      ++loaded;
      const Ids ids = tokenizer.encode("the low 12\n<s> é");
      tokenizer.decode(ids);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kNotFound);
    }
  }
  EXPECT_GT(loaded, 10);
}

TEST(TokenizerHostile, SettingsThatPanicBelowAreErrors) {
  const auto with = [](const char* key, const char* value) {
    auto json = nlohmann::json::parse(tokenizer_json(byte_vocabulary()));
    json[key] = nlohmann::json::parse(value);
    return json.dump();
  };
  const std::vector<std::string> files = {
      with("normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "/////w=="})"),
      with("pre_tokenizer", R"({"type": "FixedLength", "length": 0})"),
      with("pre_tokenizer",
           R"({"type": "Split", "pattern": {"Regex": "(((("}, "behavior": "Isolated", "invert": false})"),
      with("truncation",
           R"({"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 9})"),
      with("decoder", R"({"type": "Strip", "content": " ", "start": 999999, "stop": 999999})"),
      with("model", R"({"type": "BPE", "vocab": {"a": 4294967295}, "merges": []})"),
      with("model", R"({"type": "BPE", "vocab": {}, "merges": ["a b"]})"),
      with("model", R"({"type": "Unigram", "unk_id": 9, "vocab": [["a", 0.0]]})"),
      with("model", R"({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                        "max_input_chars_per_word": 0, "vocab": {}})"),
  };
  for (const std::string& file : files) {
    try {
      const Tokenizer tokenizer = Tokenizer::from_json(file);
      tokenizer.decode(tokenizer.encode("the low 12 <s>"));
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace grille::text::testing
