#include "grille/server/generation_request.h"

#include <functional>

#include <gtest/gtest.h>

#include "grille/base/fuzz.h"
#include "grille/server/prepared_generation.h"
#include "grille/server/test_model.h"

namespace grille::server {
namespace {

using testing::bytes_of;

class GenerationRequestTest : public ::testing::Test {
 protected:
  CompletionRequest completion(const std::string& fields) const {
    return parse_completion(parse_body(R"({"prompt":"hi")" + fields + "}"), model_, limits_);
  }
  ChatRequest chat(const std::string& fields) const {
    return parse_chat(parse_body(R"({"messages":[{"role":"user","content":"hi"}])" + fields + "}"), model_,
                      limits_);
  }
  // The field that an ApiError names.
  static std::string refused(const std::function<void()>& body) {
    try {
      body();
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status(), Status::kBadRequest) << error.what();
      return error.param();
    }
    return "nothing was refused";
  }

  const ServedModel model_ = testing::test_model();
  const GenerationLimits limits_;
};

TEST_F(GenerationRequestTest, CompletionDefaultsAreVllms) {
  const GenerationRequest request = completion("").generation;
  EXPECT_EQ(request.model, "test");
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.sampling.temperature, 1.0);
  EXPECT_FALSE(request.stream || request.logprobs || request.seed || request.ignore_eos ||
               request.include_stop);
  EXPECT_TRUE(request.skip_special_tokens && request.add_special_tokens);
  EXPECT_TRUE(request.unknown_fields.empty());
}

TEST_F(GenerationRequestTest, EveryFieldArrives) {
  const CompletionRequest parsed = completion(
      R"(,"model":"alias","temperature":0.5,"top_p":0.9,"top_k":-1,"min_p":0.1,"repetition_penalty":1.2,
      "frequency_penalty":-1,"presence_penalty":2,"logit_bias":{"17":-100,"262":3.5},"seed":-1,"n":3,"max_tokens":5,
      "min_tokens":2,"stop":["a","b"],"stop_token_ids":[7,8],"include_stop_str_in_output":true,"ignore_eos":true,
      "skip_special_tokens":false,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
      "logprobs":4,"echo":true,"return_tokens_as_token_ids":true,"truncate_prompt_tokens":9,
      "add_special_tokens":false,"user":"me","best_of":3,"suffix":"","response_format":{"type":"text"})");
  const GenerationRequest& request = parsed.generation;
  EXPECT_EQ(request.model, "alias");
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_EQ(request.sampling.min_p, 0.1);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.2);
  EXPECT_EQ(request.sampling.frequency_penalty, -1);
  EXPECT_EQ(request.sampling.presence_penalty, 2);
  EXPECT_EQ(request.sampling.logit_bias,
            (std::vector<std::pair<std::int32_t, float>>{{17, -100.0f}, {262, 3.5f}}));
  EXPECT_EQ(request.seed, ~std::uint64_t{0});
  EXPECT_EQ(request.n, 3);
  EXPECT_EQ(request.max_tokens, 5);
  EXPECT_EQ(request.min_tokens, 2);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.stop_token_ids, (std::vector<std::int32_t>{7, 8}));
  EXPECT_TRUE(request.include_stop && request.ignore_eos && !request.skip_special_tokens && request.stream);
  EXPECT_TRUE(request.include_usage && request.continuous_usage && request.logprobs && request.tokens_as_ids);
  EXPECT_EQ(request.top_logprobs, 4);
  EXPECT_EQ(request.truncate_prompt_tokens, 9);
  EXPECT_FALSE(request.add_special_tokens);
  EXPECT_TRUE(parsed.echo);
  EXPECT_TRUE(request.unknown_fields.empty());
}

TEST_F(GenerationRequestTest, PromptsComeInFourForms) {
  const auto prompts = [&](const std::string& prompt) {
    return parse_completion(parse_body("{\"prompt\":" + prompt + "}"), model_, limits_).prompts;
  };
  EXPECT_EQ(prompts(R"("ab")"), (std::vector<PromptInput>{"ab"}));
  EXPECT_EQ(prompts(R"(["a","b"])"), (std::vector<PromptInput>{"a", "b"}));
  EXPECT_EQ(prompts("[1,2]"), (std::vector<PromptInput>{std::vector<std::int32_t>{1, 2}}));
  EXPECT_EQ(prompts("[[1],[2,3]]"),
            (std::vector<PromptInput>{std::vector<std::int32_t>{1}, std::vector<std::int32_t>{2, 3}}));
  for (const char* bad :
       {"[]", "null", "3", "{}", "[true]", "[1,\"a\"]", "[263]", "[-1]", "[[1],2.5]", "[1e300]"})
    EXPECT_NE(refused([&] { prompts(bad); }), "nothing was refused") << bad;
}

TEST_F(GenerationRequestTest, WhatIsWrongIsNamed) {
  for (const auto& [fields, name] : std::vector<std::pair<std::string, std::string>>{
           {R"(,"n":0)", "n"},
           {R"(,"n":257)", "n"},
           {R"(,"n":"2")", "n"},
           {R"(,"temperature":-0.1)", "temperature"},
           {R"(,"temperature":true)", "temperature"},
           {R"(,"top_p":1.5)", "top_p"},
           {R"(,"top_k":-2)", "top_k"},
           {R"(,"seed":1.5)", "seed"},
           {R"(,"seed":18446744073709551615)", "seed"},
           {R"(,"max_tokens":0)", "max_tokens"},
           {R"(,"max_tokens":-1)", "max_tokens"},
           {R"(,"logprobs":21)", "logprobs"},
           {R"(,"logprobs":true)", "logprobs"},
           {R"(,"stop":"")", "stop"},
           {R"(,"stop":[1])", "stop"},
           {R"(,"stop_token_ids":[263])", "stop_token_ids"},
           {R"(,"logit_bias":{"x":1})", "logit_bias"},
           {R"(,"logit_bias":{"1":101})", "logit_bias"},
           {R"(,"logit_bias":{"999":1})", "logit_bias"},
           {R"(,"frequency_penalty":3)", "frequency_penalty"},
           {R"(,"stream":1)", "stream"},
           {R"(,"stream_options":{"include_usage":true})", "stream_options"},
           {R"(,"truncate_prompt_tokens":0)", "truncate_prompt_tokens"},
           {R"(,"response_format":{"type":"json_object"})", "response_format"},
           {R"(,"suffix":"x")", "suffix"},
           {R"(,"best_of":2)", "best_of"},
           {R"(,"use_beam_search":true)", "use_beam_search"},
           {R"(,"bad_words":["x"])", "bad_words"},
           {R"(,"prompt_logprobs":1)", "prompt_logprobs"},
           {R"(,"guided_json":{"type":"object"})", "guided_json"}}) {
    EXPECT_EQ(refused([&, f = fields] { completion(f); }), name) << fields;
  }
}

TEST_F(GenerationRequestTest, UnknownFieldsAreListed) {
  const GenerationRequest request =
      completion(R"(,"surprise":1,"stream":true,"stream_options":{"later":2})").generation;
  EXPECT_EQ(request.unknown_fields, (std::vector<std::string>{"stream_options.later", "surprise"}));
}

TEST_F(GenerationRequestTest, AnUnknownModelIsNotFound) {
  try {
    completion(R"(,"model":"other")");
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), Status::kNotFound);
    EXPECT_EQ(std::string(error.what()), "The model `other` does not exist.");
  }
}

TEST_F(GenerationRequestTest, ChatTakesBothNamesOfMaxTokensAndPartsOfText) {
  EXPECT_EQ(chat("").generation.max_tokens, std::nullopt);
  EXPECT_EQ(chat(R"(,"max_tokens":5)").generation.max_tokens, 5);
  EXPECT_EQ(chat(R"(,"max_tokens":5,"max_completion_tokens":7)").generation.max_tokens, 7);
  const Json parts = parse_body(
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})");
  EXPECT_EQ(parse_chat(parts, model_, limits_).messages[0]["content"], "a\nb");
}

TEST_F(GenerationRequestTest, ChatRefusesWhatItCannotDo) {
  for (const auto& [fields, name] : std::vector<std::pair<std::string, std::string>>{
           {R"(,"tools":[{"type":"function"}])", "tools"},
           {R"(,"tool_choice":"required")", "tool_choice"},
           {R"(,"top_logprobs":2)", "top_logprobs"},
           {R"(,"logprobs":true,"top_logprobs":21)", "top_logprobs"},
           {R"(,"chat_template":"x")", "chat_template"},
           {R"(,"response_format":{"type":"json_schema","json_schema":{}})", "response_format"}}) {
    EXPECT_EQ(refused([&, f = fields] { chat(f); }), name) << fields;
  }
  for (const char* messages :
       {"[]", "{}", R"(["x"])", R"([{"role":1,"content":"x"}])", R"([{"role":"user"}])",
        R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
        R"([{"role":"assistant","content":"x","tool_calls":[{"id":"1"}]}])"}) {
    EXPECT_EQ(refused([&] {
                parse_chat(parse_body(std::string("{\"messages\":") + messages + "}"), model_, limits_);
              }),
              "messages")
        << messages;
  }
  EXPECT_EQ(chat(R"(,"tools":[],"tool_choice":"none","store":false)").generation.unknown_fields.size(), 0u);
}

TEST_F(GenerationRequestTest, HostileBodiesAreRefused) {
  std::string wide = "{";
  for (int i = 0; i < 2000; ++i) wide += "\"k" + std::to_string(i) + "\":1,";
  wide += "\"prompt\":\"x\"}";
  const std::string deep = "{\"prompt\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  for (const std::string& body :
       std::vector<std::string>{"", "{", "[]", "3", "\"x\"", "{\"prompt\":\"\xff\"}", "{\"prompt\":1e999}",
                                "{\"a\":1}x", deep, wide, "{\"prompt\":\"\\ud800\"}"}) {
    EXPECT_THROW(parse_completion(parse_body(body), model_, limits_), ApiError) << body.substr(0, 40);
  }
}

// A request, or an ApiError; any other exception ends the test.
TEST_F(GenerationRequestTest, RandomBodiesAreReadOrRefused) {
  Mutator mutator(
      {R"({"model":"test","prompt":[[1,2],[3]],"n":2,"logprobs":5,"echo":true,"stop":["a","b"],"seed":7})",
       R"({"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"stream":true,"stream_options":{}})",
       R"({"prompt":"text","logit_bias":{"5":1.5},"stop_token_ids":[1],"min_tokens":3,"truncate_prompt_tokens":-1})"},
      {"null", "1e308", "-1", "[]", "{}", "\"\\ud83d\"", "true", "18446744073709551616",
       "\"prompt\":", "\"n\":"});
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string body = mutator.next();
    try {
      const Json json = parse_body(body);
      if (json.contains("messages")) {
        prepare_chat(parse_chat(json, model_, limits_), model_, limits_);
      } else {
        prepare_completion(parse_completion(json, model_, limits_), model_, limits_);
      }
      ++read;
    } catch (const ApiError& error) {
      EXPECT_NE(error.status(), Status::kInternal) << error.what();
    }
  }
  EXPECT_GT(read, 100);  // not everything is refused
}

TEST_F(GenerationRequestTest, PreparingMakesOneEngineRequestAChoice) {
  const PreparedGeneration prepared = prepare_completion(
      parse_completion(
          parse_body(R"({"prompt":["ab",[5,6,7]],"n":2,"seed":10,"max_tokens":3,"stop_token_ids":[9]})"),
          model_, limits_),
      model_, limits_);
  ASSERT_EQ(prepared.requests.size(), 4u);
  EXPECT_EQ(prepared.requests[0].prompt, bytes_of("ab"));
  EXPECT_EQ(prepared.requests[3].prompt, (std::vector<std::int32_t>{5, 6, 7}));
  EXPECT_EQ(prepared.requests[2].sampling.seed, 10u);
  EXPECT_EQ(prepared.requests[3].sampling.seed, 11u);
  EXPECT_EQ(prepared.requests[0].max_tokens, 3);
  EXPECT_EQ(prepared.requests[0].stop_tokens, (std::vector<std::int32_t>{9, testing::kEos}));
  EXPECT_FALSE(prepared.requests[0].prompt_logprobs);
}

TEST_F(GenerationRequestTest, PreparingHoldsTheContext) {
  const ServedModel small = testing::test_model(10);
  const auto prepare = [&](const std::string& body) {
    return prepare_completion(parse_completion(parse_body(body), small, limits_), small, limits_);
  };
  EXPECT_EQ(prepare(R"({"prompt":"12345678","max_tokens":2})").requests[0].max_tokens, 2);
  EXPECT_EQ(refused([&] { prepare(R"({"prompt":"12345678","max_tokens":3})"); }), "max_tokens");
  EXPECT_EQ(refused([&] { prepare(R"({"prompt":"12345678","max_tokens":2,"min_tokens":3})"); }),
            "min_tokens");
  EXPECT_EQ(refused([&] { prepare(R"({"prompt":"","max_tokens":3})"); }), "prompt");
  EXPECT_EQ(
      prepare(R"({"prompt":"0123456789abc","max_tokens":2,"truncate_prompt_tokens":4})").requests[0].prompt,
      bytes_of("9abc"));
  EXPECT_EQ(
      prepare(R"({"prompt":"0123456789abc","max_tokens":2,"truncate_prompt_tokens":-1})").requests[0].prompt,
      bytes_of("56789abc"));
  const GenerationLimits at_most_one{.max_choices = 256, .max_tokens = 1};
  EXPECT_EQ(refused([&] {
              prepare_completion(
                  parse_completion(parse_body(R"({"prompt":"1","max_tokens":2})"), small, limits_), small,
                  at_most_one);
            }),
            "max_tokens");
}

TEST_F(GenerationRequestTest, ChatsGoThroughTheTemplate) {
  const PreparedGeneration prepared =
      prepare_chat(chat(R"(,"chat_template_kwargs":{"mood":"calm"},"ignore_eos":true)"), model_, limits_);
  EXPECT_EQ(prepared.requests[0].prompt, bytes_of("[user]hi[assistant](calm)"));
  EXPECT_TRUE(prepared.requests[0].stop_tokens.empty());
  EXPECT_EQ(prepared.requests[0].max_tokens, 4096 - 25);
  EXPECT_EQ(prepare_chat(chat(R"(,"add_generation_prompt":false)"), model_, limits_).requests[0].prompt,
            bytes_of("[user]hi"));
}

TEST(SamplingDefaults, ComeFromTheModelsFile) {
  const SamplingDefaults defaults = sampling_defaults(R"({"temperature":0.6,"top_p":0.9,"top_k":20})");
  EXPECT_EQ(defaults.temperature, 0.6);
  EXPECT_EQ(defaults.top_p, 0.9);
  EXPECT_EQ(defaults.top_k, 20);
  EXPECT_EQ(sampling_defaults("").temperature, 1.0);
  EXPECT_THROW(sampling_defaults("[]"), Error);
  EXPECT_THROW(sampling_defaults(R"({"temperature":"hot"})"), Error);
}

}  // namespace
}  // namespace grille::server
