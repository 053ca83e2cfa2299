#include "grille/text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "grille/text/test_data.h"
#include "grille/text/utf8.h"

namespace grille::text::testing {
namespace {

using Ids = std::vector<std::int32_t>;

std::string streamed(const Tokenizer& tokenizer, const Ids& ids, bool skip) {
  Detokenizer detokenizer(tokenizer, skip);
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string piece = detokenizer.push(id);
    EXPECT_TRUE(is_utf8(piece));
    text += piece;
  }
  const std::string rest = detokenizer.flush();
  EXPECT_TRUE(is_utf8(rest));
  return text + rest;
}

// A run of byte-fallback tokens that is not UTF-8 as a whole; there a stream cannot agree.
bool has_bad_byte_run(const Tokenizer& tokenizer, const Ids& ids, bool skip) {
  std::string run;
  for (const std::int32_t id : ids) {
    if (skip && tokenizer.is_special(id)) continue;
    const auto byte = tokenizer.fallback_byte(id);
    if (!byte && !is_utf8(run)) return true;
    if (!byte) run.clear();
    if (byte) run.push_back(static_cast<char>(*byte));
  }
  return !is_utf8(run);
}

class DetokenizerOf : public ::testing::TestWithParam<const char*> {};

TEST_P(DetokenizerOf, PiecesOfRandomIdsMakeTheDecodedText) {
  GRILLE_NEEDS_SHARED_DATA();
  const Tokenizer& tokenizer = shared_tokenizer(GetParam());
  std::mt19937 random(7);
  int compared = 0;
  for (int round = 0; round < 400; ++round) {
    const bool skip = round % 2 == 0;
    Ids ids(1 + random() % 40);
    for (std::int32_t& id : ids) {
      // Half of them from the start of the vocabulary: bytes and special tokens.
      const auto end = static_cast<std::uint32_t>(random() % 2 ? tokenizer.end_id() : 400);
      id = static_cast<std::int32_t>(random() % end);
    }
    const std::string text = streamed(tokenizer, ids, skip);
    if (has_bad_byte_run(tokenizer, ids, skip)) continue;
    ++compared;
    ASSERT_EQ(text, tokenizer.decode(ids, skip)) << "round " << round;
  }
  EXPECT_GT(compared, 20);
}

TEST_P(DetokenizerOf, PiecesOfRealTextMakeTheDecodedText) {
  GRILLE_NEEDS_SHARED_DATA();
  const Tokenizer& tokenizer = shared_tokenizer(GetParam());
  // It does not settle on where to break a string with wide characters.
  // clang-format off
  const std::string text =
      "  Hello,  world!\n\n\tcafé 你好 🇩🇪👩‍👩‍👧‍👦 naïve\u00a0x \U0001F600\U0001F680 ಠ_ಠ 123 4 <s> ▁ end ";
  // clang-format on
  const Ids ids = tokenizer.encode(text);
  EXPECT_EQ(streamed(tokenizer, ids, false), tokenizer.decode(ids, false));
  EXPECT_EQ(streamed(tokenizer, ids, true), tokenizer.decode(ids, true));
}

INSTANTIATE_TEST_SUITE_P(All, DetokenizerOf,
                         ::testing::Values("llama-2", "mistral-v0.1", "llama-3.1", "qwen3", "gpt2", "gemma-3",
                                           "smollm2-135m", "modelopt-test-128"));

TEST(Detokenizer, HoldsTheBytesOfACharacterBack) {
  const Tokenizer tokenizer = tokenizer_of(byte_vocabulary());
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(detokenizer.push('a'), "a");
  EXPECT_EQ(detokenizer.push(0xF0), "");
  EXPECT_EQ(detokenizer.push(0x9F), "");
  EXPECT_EQ(detokenizer.push(0x98), "");
  EXPECT_EQ(detokenizer.push(0x80), "😀");
  EXPECT_EQ(detokenizer.push(0xE2), "");
  EXPECT_EQ(detokenizer.flush(), "\uFFFD");
}

TEST(Detokenizer, ABrokenByteRunShowsWhatIsGoodInIt) {
  GRILLE_NEEDS_SHARED_DATA();
  const Tokenizer& tokenizer = shared_tokenizer("llama-2");
  const auto byte = [](int value) { return 3 + value; };  // <0x00> is id 3
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(detokenizer.push(byte('x')), "x");
  EXPECT_EQ(detokenizer.push(byte(0xE2)), "");
  EXPECT_EQ(detokenizer.push(byte(0x82)), "");
  EXPECT_EQ(detokenizer.push(byte('y')), "\uFFFD\uFFFDy");
  EXPECT_EQ(detokenizer.push(byte(0xFF)), "\uFFFD");
  EXPECT_EQ(detokenizer.push(byte(0xE2)), "");
  EXPECT_EQ(detokenizer.push(*tokenizer.token_to_id("▁the")), "\uFFFD the");
}

TEST(Detokenizer, AfterAPromptTheFirstSpaceStays) {
  GRILLE_NEEDS_SHARED_DATA();
  const Tokenizer& tokenizer = shared_tokenizer("llama-2");
  const std::int32_t paris = *tokenizer.token_to_id("▁Paris");
  Detokenizer alone(tokenizer);
  EXPECT_EQ(alone.push(paris), "Paris");
  Detokenizer after(tokenizer);
  after.set_context(tokenizer.encode("The capital of France is"));
  EXPECT_EQ(after.push(paris), " Paris");
}

}  // namespace
}  // namespace grille::text::testing
