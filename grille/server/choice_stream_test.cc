#include "grille/server/choice_stream.h"

#include <gtest/gtest.h>

#include "grille/server/test_model.h"

namespace grille::server {
namespace {

using testing::bytes_of;
using testing::kEos;

// Feeds a text, a byte a token, with what ends it, and returns everything together.
class ChoiceStreamTest : public ::testing::Test {
 protected:
  ChoiceDelta run(const std::string& fields, std::vector<std::int32_t> tokens, engine::FinishReason finish) {
    const GenerationLimits limits;
    const bool limited = fields.find("max_tokens\"") != std::string::npos;
    const std::string body =
        fmt::format(R"({{"prompt":"Q:"{}{}}})", limited ? "" : R"(,"max_tokens":100)", fields);
    prepared_ = prepare_completion(parse_completion(parse_body(body), model_, limits), model_, limits);
    ChoiceStream stream(prepared_, 0, model_);
    ChoiceDelta whole;
    pieces_.clear();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      engine::TokenEvent event;
      event.token = tokens[i];
      event.logprob = -0.5f;
      event.top = {{tokens[i], -0.5f}, {1, -1.5f}};
      if (i == 0 && prepared_.requests[0].prompt_logprobs) event.prompt = {{{':', -2.0f}, {{'x', -1.0f}}}};
      if (i + 1 == tokens.size()) event.finish = finish;
      ChoiceDelta delta = stream.push(event);
      pieces_.push_back(delta.text);
      whole.append(std::move(delta));
    }
    completion_tokens_ = stream.completion_tokens();
    return whole;
  }
  ChoiceDelta run(const std::string& fields, const std::string& text) {
    return run(fields, bytes_of(text), engine::FinishReason::kLength);
  }

  const ServedModel model_ = testing::test_model();
  PreparedGeneration prepared_;
  std::vector<std::string> pieces_;
  std::int64_t completion_tokens_ = 0;
};

TEST_F(ChoiceStreamTest, TextComesInWholeCharacters) {
  const ChoiceDelta whole = run("", "a\xC3\xA9z");
  EXPECT_EQ(whole.text, "a\xC3\xA9z");
  EXPECT_EQ(pieces_, (std::vector<std::string>{"a", "", "\xC3\xA9", "z"}));
  EXPECT_EQ(whole.finish_reason, "length");
  EXPECT_TRUE(whole.stop_reason.is_null());
  EXPECT_TRUE(whole.logprobs.empty());
}

TEST_F(ChoiceStreamTest, AStopStringIsHeldBackAndCutOff) {
  const ChoiceDelta whole = run(R"(,"stop":["END","zz"])", "one E ENDtwo");
  EXPECT_EQ(whole.text, "one E ");
  EXPECT_EQ(whole.finish_reason, "stop");
  EXPECT_EQ(whole.stop_reason, "END");
  EXPECT_EQ(completion_tokens_, 9);  // what comes after it is not counted
  EXPECT_EQ(run(R"(,"stop":"END","include_stop_str_in_output":true)", "one ENDtwo").text, "one END");
  EXPECT_EQ(run(R"(,"stop":"END")", "one EN").text, "one EN");
}

TEST_F(ChoiceStreamTest, MinTokensComeBeforeAStopString) {
  const ChoiceDelta whole = run(R"(,"stop":"b","min_tokens":3)", "abab");
  EXPECT_EQ(whole.text, "aba");
  EXPECT_EQ(whole.finish_reason, "stop");
}

TEST_F(ChoiceStreamTest, TheEndOfSequenceIsNotShown) {
  auto tokens = bytes_of("hi");
  tokens.push_back(kEos);
  const ChoiceDelta whole = run(R"(,"skip_special_tokens":false)", tokens, engine::FinishReason::kStop);
  EXPECT_EQ(whole.text, "hi");
  EXPECT_EQ(whole.finish_reason, "stop");
  EXPECT_TRUE(whole.stop_reason.is_null());
  EXPECT_EQ(completion_tokens_, 3);
  EXPECT_EQ(run(R"(,"skip_special_tokens":false,"include_stop_str_in_output":true)", tokens,
                engine::FinishReason::kStop)
                .text,
            "hi</s>");
}

TEST_F(ChoiceStreamTest, AStopTokenIsNamed) {
  const ChoiceDelta whole = run(R"(,"stop_token_ids":[33])", bytes_of("hi!"), engine::FinishReason::kStop);
  EXPECT_EQ(whole.text, "hi");
  EXPECT_EQ(whole.stop_reason, 33);
  EXPECT_EQ(run(R"(,"stop_token_ids":[33],"include_stop_str_in_output":true)", bytes_of("hi!"),
                engine::FinishReason::kStop)
                .text,
            "hi!");
}

TEST_F(ChoiceStreamTest, EchoShowsThePromptAndItsLogprobs) {
  const ChoiceDelta whole = run(R"(,"echo":true,"logprobs":1)", "A");
  EXPECT_EQ(whole.text, "Q:A");
  ASSERT_EQ(whole.logprobs.size(), 3u);  // prompt length + 1
  EXPECT_EQ(whole.logprobs[0].token, 'Q');
  EXPECT_FALSE(whole.logprobs[0].logprob.has_value());
  EXPECT_EQ(whole.logprobs[1].logprob, -2.0f);
  EXPECT_EQ(whole.logprobs[1].top[0].token, 'x');
  EXPECT_EQ(whole.logprobs[2].token, 'A');
}

TEST_F(ChoiceStreamTest, EchoAloneGeneratesNothing) {
  const ChoiceDelta whole = run(R"(,"echo":true,"max_tokens":0,"logprobs":1)", "A");
  EXPECT_EQ(whole.text, "Q:");
  EXPECT_EQ(whole.logprobs.size(), 2u);
  EXPECT_EQ(whole.finish_reason, "length");
  EXPECT_EQ(completion_tokens_, 0);
}

}  // namespace
}  // namespace grille::server
