#include "grille/text/ggml_vocabulary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "grille/text/chat_template.h"
#include "grille/text/sentencepiece_merges.h"
#include "grille/text/test_data.h"

namespace grille::text::testing {
namespace {

using Ids = std::vector<std::int32_t>;

// The metadata that llama.cpp's converter makes of a Hugging Face tokenizer.
GgmlVocabulary from_hugging_face(const std::string& name, const std::string& model, const std::string& pre) {
  const auto file = shared_json("tokenizers/" + name + "/tokenizer.json.gz");
  GgmlVocabulary v;
  v.model = model;
  v.pre = pre;
  std::size_t count = 0;
  for (const auto& [token, id] : file["model"]["vocab"].items())
    count = std::max(count, id.get<std::size_t>() + 1);
  for (const auto& token : file["added_tokens"]) count = std::max(count, token["id"].get<std::size_t>() + 1);
  v.tokens.resize(count);
  v.token_types.assign(count, 1);
  for (const auto& [token, id] : file["model"]["vocab"].items()) v.tokens[id.get<std::size_t>()] = token;
  for (const auto& token : file["added_tokens"]) {
    const std::size_t id = token["id"];
    v.tokens[id] = token["content"];
    v.token_types[id] = token["special"].get<bool>() ? 3 : 4;
  }
  if (model == "gpt2") {
    for (const auto& merge : file["model"]["merges"]) {
      v.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                           : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    }
  }
  return v;
}

// The scores in a SentencePiece model file: a protobuf whose field 1 is a list of pieces, and a piece's
// field 2 its score.
std::vector<float> sentencepiece_scores(const fs::path& file) {
  const std::string bytes = read_file(file);
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(bytes.at(at++));
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  std::vector<float> scores;
  while (at < bytes.size() && bytes[at] == 0x0A) {  // field 1, length-delimited
    ++at;
    const std::size_t end = varint() + at;
    float score = 0;
    while (at < end) {
      const std::uint64_t key = varint();
      if (key == 0x0A) {
        const std::size_t length = varint();
        at += length;
      } else if (key == 0x15) {
        std::memcpy(&score, bytes.data() + at, sizeof score);
        at += sizeof score;
      } else {
        varint();
      }
    }
    scores.push_back(score);
  }
  return scores;
}

TEST(GgmlVocabulary, SmolLm2HasTheModelsOwnIds) {
  GRILLE_NEEDS_SHARED_DATA();
  GgmlVocabulary v = from_hugging_face("smollm2-135m", "gpt2", "smollm");
  v.bos_id = 1;
  v.eos_id = 2;
  v.add_bos = false;
  v.add_space_prefix = false;
  const Tokenizer tokenizer = tokenizer_of(v);
  const auto expected = shared_json("models/smollm2-135m/expected.json");
  for (const auto& prompt : expected["prompts"]) {
    EXPECT_EQ(tokenizer.encode(prompt["text"].get<std::string>()), prompt["ids"].get<Ids>())
        << prompt["name"];
  }
  const std::string raw = read_file(shared_data() / "wikitext-2/wiki.test.raw");
  EXPECT_EQ(tokenizer.encode(join_hf_wikitext(raw)).size(), 304978u);
  EXPECT_EQ(tokenizer.encode("  42"), (Ids{256, 36, 34}));
  EXPECT_EQ(tokenizer.encode(" ²"), (Ids{216, 19133}));
}

struct Agreement {
  const char* name;
  const char* model;
  const char* pre;
};

class GgmlVocabularyOf : public ::testing::TestWithParam<Agreement> {};

TEST_P(GgmlVocabularyOf, GivesTheIdsOfTheModelsOwnTokenizer) {
  GRILLE_NEEDS_SHARED_DATA();
  GgmlVocabulary v = from_hugging_face(GetParam().name, GetParam().model, GetParam().pre);
  const Tokenizer& own = shared_tokenizer(GetParam().name);
  if (own.bos_id()) v.bos_id = *own.bos_id();
  if (own.eos_ids().size() > 0) v.eos_id = own.eos_ids()[0];
  v.add_bos = own.adds_bos();
  const Tokenizer tokenizer = tokenizer_of(v);
  const std::string raw = read_file(shared_data() / "wikitext-2/wiki.test.raw");
  EXPECT_EQ(tokenizer.encode(raw), own.encode(raw));
  const std::string hard =
      "a\u0301 ② 12345 I'LL don't\r\n\r\n  x\t\tÀÉ 你好！🚀🚀 <s> <|im_start|> fooBAR--==>>\n\n\n 3.14  ";
  const Ids ids = own.encode(hard);
  EXPECT_EQ(tokenizer.encode(hard), ids);
  EXPECT_EQ(tokenizer.decode(ids), own.decode(ids));
}

INSTANTIATE_TEST_SUITE_P(All, GgmlVocabularyOf,
                         ::testing::Values(Agreement{"gpt2", "gpt2", "gpt-2"},
                                           Agreement{"llama-3.1", "gpt2", "llama-bpe"},
                                           Agreement{"qwen3", "gpt2", "qwen2"}));

TEST(GgmlVocabulary, SentencePieceMergesFollowFromTheScores) {
  GRILLE_NEEDS_SHARED_DATA();
  GgmlVocabulary v = from_hugging_face("llama-2", "llama", "default");
  const auto file = shared_json("tokenizers/llama-2/tokenizer.json.gz");
  v.scores = sentencepiece_scores(shared_data() / "tokenizers/llama-2/tokenizer.model");
  ASSERT_EQ(v.scores.size(), v.tokens.size());
  for (std::size_t id = 3; id < 259; ++id) v.token_types[id] = 6;
  v.bos_id = 1;
  v.eos_id = 2;
  v.unk_id = 0;
  const auto made = nlohmann::json::parse(tokenizer_json(v));
  const auto& merges = made["model"]["merges"];
  ASSERT_EQ(merges.size(), file["model"]["merges"].size());
  // Llama 2's file is older than the converter's rule for the order of merges with equal scores, so the
  // sets must be equal and the scores in order.
  std::set<std::string> made_set;
  std::set<std::string> file_set;
  const TokenIds ids = [&] {
    TokenIds all;
    for (std::size_t id = 0; id < v.tokens.size(); ++id)
      all.emplace(v.tokens[id], static_cast<std::int64_t>(id));
    return all;
  }();
  float last = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::string left = merges[i][0];
    const std::string right = merges[i][1];
    const float score = v.scores[static_cast<std::size_t>(ids.at(left + right))];
    ASSERT_LE(score, last) << i;
    last = score;
    made_set.insert(left + " " + right);
    file_set.insert(file["model"]["merges"][i].get<std::string>());
  }
  EXPECT_EQ(made_set, file_set);
  const Tokenizer tokenizer = tokenizer_of(v);
  const std::string raw = read_file(shared_data() / "wikitext-2/wiki.test.raw");
  const Tokenizer& own = shared_tokenizer("llama-2");
  EXPECT_EQ(tokenizer.encode(raw), own.encode(raw));
  for (std::size_t n = 1; n < 70; ++n) {
    const std::string spaces = fmt::format("a{}b\n{} 你🚀", std::string(n, ' '), std::string(n, 'a'));
    EXPECT_EQ(tokenizer.encode(spaces), own.encode(spaces)) << n;
  }
  EXPECT_TRUE(tokenizer.adds_bos());
}

TEST(GgmlVocabulary, TheWrittenDirectoryLoadsAgain) {
  GgmlVocabulary v = byte_vocabulary();
  v.add_bos = true;
  v.eot_id = 257;
  v.chat_template = "{{ bos_token }}{{ messages[0].content }}";
  const TemporaryFolder folder;
  folder.write("tokenizer.json", tokenizer_json(v));
  folder.write("tokenizer_config.json", tokenizer_config_json(v));
  const Tokenizer tokenizer = Tokenizer::from_directory(folder.path());
  EXPECT_EQ(tokenizer.encode("a"), (Ids{261, 'a'}));
  EXPECT_EQ(tokenizer.eos_ids(), (Ids{262}));
  EXPECT_EQ(tokenizer_of(v).eos_ids(), (Ids{262, 257}));
  EXPECT_EQ(ChatTemplate::of(tokenizer).render({{{"role", "user"}, {"content", "hi"}}}), "<s>hi");
  EXPECT_EQ(tokenizer.encode("a"), tokenizer_of(v).encode("a"));
  error_of([] { ChatTemplate::of(tokenizer_of(byte_vocabulary())); }, ErrorCode::kUnsupported);
}

TEST(GgmlVocabulary, TheDefaultPreTokenizerCutsThreeDigitsAndPunctuation) {
  GgmlVocabulary v = byte_vocabulary();
  v.pre = "";
  EXPECT_EQ(tokenizer_of(v).encode("the low.. 12345"),
            tokenizer_of(byte_vocabulary()).encode("the low.. 12345"));
}

TEST(GgmlVocabulary, UnknownKindsListTheKnownOnes) {
  GgmlVocabulary v = byte_vocabulary();
  v.pre = "chameleon";
  const std::string message = error_of([&] { tokenizer_json(v); }, ErrorCode::kUnsupported);
  EXPECT_NE(message.find("llama-bpe"), std::string::npos) << message;
  EXPECT_NE(message.find("smollm"), std::string::npos) << message;
  v.model = "rwkv";
  EXPECT_NE(error_of([&] { tokenizer_json(v); }, ErrorCode::kUnsupported).find("gpt2, llama"),
            std::string::npos);
}

TEST(GgmlVocabulary, ContradictionsAreErrors) {
  const auto bad = [](const auto& change, const char* says) {
    GgmlVocabulary v = byte_vocabulary();
    change(v);
    const std::string message = error_of([&] { tokenizer_json(v); }, ErrorCode::kCorruptData);
    EXPECT_NE(message.find(says), std::string::npos) << message;
  };
  bad([](auto& v) { v.tokens.clear(); }, "tokens is missing");
  bad([](auto& v) { v.merges.clear(); }, "merges is missing");
  bad([](auto& v) { v.token_types.pop_back(); }, "token_type has 262 entries");
  bad([](auto& v) { v.scores = {1.0f}; }, "scores has 1");
  bad([](auto& v) { v.tokens[5] = "\xff"; }, "token 5 is not UTF-8");
  bad([](auto& v) { v.tokens[5] = v.tokens[6]; }, "tokens 5 and 6");
  bad([](auto& v) { v.merges[1] = "th zz"; }, "'zz', which is no token");
  bad([](auto& v) { v.merges[1] = "a b"; }, "'ab', which is no token");
  for (const char* merge : {"", "a", "a ", " a", "\xff a"})
    bad([&](auto& v) { v.merges[0] = merge; }, "merge 0");
  bad([](auto& v) { v.bos_id = 263; }, "is 263");
  bad([](auto& v) { v.eos_id = -1; }, "is -1");
  bad([](auto& v) { v.model = "llama"; }, "scores is missing");
  bad(
      [](auto& v) {
        v.model = "llama";
        v.scores.assign(v.tokens.size(), std::nanf(""));
      },
      "a score is");
  bad(
      [](auto& v) {
        v.model = "llama";
        v.scores.assign(v.tokens.size(), 0);
        v.tokens[9] = std::string(5000, 'a');
      },
      "token 9 has 5000 bytes");
}

}  // namespace
}  // namespace grille::text::testing
