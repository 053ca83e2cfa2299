#include "grille/server/response_writer.h"

#include <limits>

#include <gtest/gtest.h>

#include "grille/server/sse.h"
#include "grille/server/test_model.h"

namespace grille::server {
namespace {

class ResponseWriterTest : public ::testing::Test {
 protected:
  void prepare(const std::string& fields, bool chat = false) {
    const GenerationLimits limits;
    if (chat) {
      const Json body = parse_body(R"({"messages":[{"role":"user","content":"x"}])" + fields + "}");
      prepared_ = prepare_chat(parse_chat(body, model_, limits), model_, limits);
      writer_ = chat_writer(prepared_, {"chatcmpl-1", 5}, model_.tokenizer);
    } else {
      prepared_ = prepare_completion(
          parse_completion(parse_body(R"({"prompt":"x")" + fields + "}"), model_, limits), model_, limits);
      writer_ = completion_writer(prepared_, {"cmpl-1", 5}, model_.tokenizer);
    }
  }

  static ChoiceDelta delta(std::string text, std::vector<LogprobEntry> logprobs = {}) {
    ChoiceDelta result;
    result.text = std::move(text);
    result.logprobs = std::move(logprobs);
    result.finish_reason = "stop";
    result.stop_reason = "END";
    return result;
  }

  const ServedModel model_ = testing::test_model();
  PreparedGeneration prepared_;
  std::unique_ptr<ResponseWriter> writer_;
};

TEST_F(ResponseWriterTest, ACompletionIsVllms) {
  prepare("");
  EXPECT_EQ(
      to_text(writer_->answer({delta("hi")}, {3, 2, 1})),
      R"({"id":"cmpl-1","object":"text_completion","created":5,"model":"test","choices":[{"index":0,"text":"hi",)"
      R"("logprobs":null,"finish_reason":"stop","stop_reason":"END"}],"usage":{"prompt_tokens":3,)"
      R"("total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}})");
}

TEST_F(ResponseWriterTest, CompletionLogprobsAreTheLegacyLists) {
  prepare(R"(,"echo":true,"logprobs":1)");
  const Json logprobs = writer_->answer(
      {delta("xyz", {{'x', std::nullopt, {}}, {'y', -1.5f, {{'z', -0.5f}}}, {'z', -0.25f, {{'z', -0.25f}}}})},
      {})["choices"][0]["logprobs"];
  EXPECT_EQ(to_text(logprobs),
            R"({"text_offset":[0,1,2],"token_logprobs":[null,-1.5,-0.25],"tokens":["x","y","z"],)"
            R"("top_logprobs":[null,{"y":-1.5,"z":-0.5},{"z":-0.25}]})");
}

TEST_F(ResponseWriterTest, OfTokensWithTheSameTextTheBestStays) {
  prepare(R"(,"logprobs":3)");
  // Both bytes are no character alone.
  const Json top = writer_->answer({delta("", {{0xC3, -0.5f, {{0xC3, -0.5f}, {0xC4, -2.0f}, {'a', -3.0f}}}})},
                                   {})["choices"][0]["logprobs"]["top_logprobs"][0];
  EXPECT_EQ(top.size(), 2u);
  EXPECT_EQ(top["\xEF\xBF\xBD"], -0.5);
  prepare(R"(,"logprobs":3,"return_tokens_as_token_ids":true)");
  const Json ids =
      writer_->answer({delta("", {{0xC3, -0.5f, {{0xC4, -2.0f}}}})}, {})["choices"][0]["logprobs"];
  EXPECT_EQ(to_text(ids["top_logprobs"]), R"([{"token_id:195":-0.5,"token_id:196":-2.0}])");
}

TEST_F(ResponseWriterTest, InfinitiesAreNumbers) {
  prepare(R"(,"logprobs":0)");
  const float never = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(
      writer_->answer({delta("a", {{'a', never, {}}})}, {})["choices"][0]["logprobs"]["token_logprobs"][0],
      -9999.0);
}

TEST_F(ResponseWriterTest, OffsetsGoOnOverChunks) {
  prepare(R"(,"logprobs":0,"n":2)");
  EXPECT_EQ(writer_->chunk(1, delta("a", {{'a', -1.0f, {}}}))["choices"][0]["logprobs"]["text_offset"][0], 0);
  EXPECT_EQ(writer_->chunk(1, delta("b", {{'b', -1.0f, {}}}))["choices"][0]["logprobs"]["text_offset"][0], 1);
  EXPECT_EQ(writer_->chunk(0, delta("b", {{'b', -1.0f, {}}}))["choices"][0]["logprobs"]["text_offset"][0], 0);
  EXPECT_TRUE(writer_->opening(0).is_null());
  EXPECT_EQ(to_text(writer_->usage_chunk({1, 2, 0})["choices"]), "[]");
}

TEST_F(ResponseWriterTest, AChatIsOpenAIs) {
  prepare(R"(,"logprobs":true,"top_logprobs":1)", true);
  EXPECT_EQ(to_text(writer_->answer({delta("h", {{'h', -0.5f, {{'h', -0.5f}}}})}, {1, 1, 0})["choices"]),
            R"([{"index":0,"message":{"role":"assistant","content":"h"},"logprobs":{"content":[{"token":"h",)"
            R"("logprob":-0.5,"bytes":[104],"top_logprobs":[{"token":"h","logprob":-0.5,"bytes":[104]}]}]},)"
            R"("finish_reason":"stop","stop_reason":"END"}])");
  EXPECT_EQ(to_text(writer_->opening(0)["choices"][0]["delta"]), R"({"role":"assistant","content":""})");
  EXPECT_EQ(to_text(writer_->chunk(0, delta("h"))["choices"][0]["delta"]), R"({"content":"h"})");
  EXPECT_EQ(writer_->chunk(0, delta("h"))["object"], "chat.completion.chunk");
}

TEST(Sse, EventsAreOneLine) {
  EXPECT_EQ(sse_event({{"text", "a\nb"}}), "data: {\"text\":\"a\\nb\"}\n\n");
  EXPECT_EQ(sse_done(), "data: [DONE]\n\n");
}

TEST(CountCharacters, CountsCodePoints) { EXPECT_EQ(count_characters("a\xC3\xA9\xF0\x9F\x98\x80"), 3); }

}  // namespace
}  // namespace grille::server
