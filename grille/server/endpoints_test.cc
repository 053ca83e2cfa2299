#include "grille/server/endpoints.h"

#include <gtest/gtest.h>

#include "grille/server/api_keys.h"
#include "grille/server/metrics.h"
#include "grille/server/response_writer.h"
#include "grille/server/test_model.h"
#include "grille/server/web_files.h"

namespace grille::server {
namespace {

TEST(Endpoints, TokenizeAndDetokenize) {
  const ServedModel model = testing::test_model();
  EXPECT_EQ(to_text(tokenize(parse_body(R"({"prompt":"the","return_token_strs":true})"), model)),
            R"({"count":1,"max_model_len":4096,"tokens":[257],"token_strs":["the"]})");
  EXPECT_EQ(tokenize(parse_body(R"({"messages":[{"role":"user","content":"x"}]})"), model)["count"], 18);
  EXPECT_EQ(to_text(detokenize(parse_body(R"({"tokens":[257,104]})"), model)), R"({"prompt":"theh"})");
  EXPECT_THROW(tokenize(parse_body("{}"), model), ApiError);
  EXPECT_THROW(detokenize(parse_body("{}"), model), ApiError);
  EXPECT_THROW(detokenize(parse_body(R"({"tokens":[263]})"), model), ApiError);
  EXPECT_THROW(detokenize(parse_body(R"({"tokens":"x"})"), model), ApiError);
}

TEST(Router, KnowsItsPaths) {
  EXPECT_EQ(match_route("/v1/completions?x=1").route, Route::kCompletions);
  EXPECT_EQ(match_route("/v1/models/org%2Fname").argument, "org/name");
  EXPECT_EQ(match_route("/v1/models/").route, Route::kNone);
  for (const char* path : {"", "//", "/v1", "/../etc/passwd", "/v1/completions/", "/%00"})
    EXPECT_EQ(match_route(path).route, Route::kNone) << path;
}

TEST(Router, EveryWebFileIsThereAndHasARoute) {
  for (const char* path : {"/index.html", "/app.js", "/metrics.js", "/style.css"}) {
    const WebFile* file = find_web_file(path);
    ASSERT_NE(file, nullptr) << path;
    EXPECT_GT(file->content.size(), 100u) << path;
  }
  EXPECT_EQ(match_route("/").argument, "/index.html");
  EXPECT_EQ(match_route("/app.js").route, Route::kWebFile);
  EXPECT_EQ(find_web_file("/passwd"), nullptr);
}

TEST(ApiKeys, LetInThoseWhoHaveOne) {
  const ApiKeys keys({"first", "second"});
  EXPECT_TRUE(keys.allows("Bearer first"));
  EXPECT_TRUE(keys.allows("bearer second"));
  for (const char* bad : {"", "first", "Bearer", "Bearer ", "Bearer firs", "Bearer first ", "Basic first"})
    EXPECT_FALSE(keys.allows(bad)) << bad;
  EXPECT_TRUE(ApiKeys({}).allows(""));
  EXPECT_THROW(ApiKeys({""}), Error);
}

TEST(HttpMessage, RequestIdsAreCheckedAndMade) {
  EXPECT_EQ(request_id_from("abc-1_2.3"), "abc-1_2.3");
  EXPECT_EQ(request_id_from("a b").size(), 32u);
  EXPECT_EQ(request_id_from("x\r\ny").size(), 32u);
  EXPECT_NE(request_id_from(""), request_id_from(""));
}

TEST(HttpMessage, OnlyJsonIsJson) {
  EXPECT_TRUE(is_json("application/json"));
  EXPECT_TRUE(is_json("Application/JSON ; charset=utf-8"));
  EXPECT_FALSE(is_json("text/plain"));
  EXPECT_FALSE(is_json(""));
  EXPECT_FALSE(is_json("application/json2"));
}

TEST(ApiErrors, HaveOpenAIsForm) {
  EXPECT_EQ(error_body(Status::kBadRequest, "n: \"x\"", "n"),
            R"({"error":{"message":"n: \"x\"","type":"BadRequestError","param":"n","code":400}})");
  EXPECT_EQ(error_reply(ApiError(Status::kUnauthorized, "secret")).body, R"({"error":"Unauthorized"})");
  EXPECT_EQ(error_reply(ApiError(Status::kUnavailable, "full")).headers[0].first, "Retry-After");
}

TEST(Metrics, AreVllmsNamesInPrometheusForm) {
  Metrics metrics("a\"b");
  metrics.count_prompt_tokens(7);
  metrics.observe_first_token(0.05);
  metrics.observe_next_token(0.02);
  const auto now = std::chrono::steady_clock::now();
  metrics.observe_end("stop", {now - std::chrono::seconds(2), now - std::chrono::seconds(1), now}, 7, 2);
  engine::LoopStats stats;
  stats.engine.running = 3;
  stats.engine.pages = 4;
  stats.engine.pages_in_use = 1;
  stats.waiting = 2;
  const std::string text = metrics.text(stats);
  const std::string labels = R"({model_name="a\"b",engine="0"})";
  for (const std::string& line : std::vector<std::string>{
           "vllm:num_requests_running" + labels + " 3", "vllm:num_requests_waiting" + labels + " 2",
           "vllm:kv_cache_usage_perc" + labels + " 0.25", "vllm:prompt_tokens_total" + labels + " 7",
           "vllm:generation_tokens_total" + labels + " 2",
           R"(vllm:request_success_total{model_name="a\"b",engine="0",finished_reason="stop"} 1)",
           R"(vllm:time_to_first_token_seconds_bucket{model_name="a\"b",engine="0",le="0.04"} 0)",
           R"(vllm:time_to_first_token_seconds_bucket{model_name="a\"b",engine="0",le="0.06"} 1)",
           R"(vllm:time_to_first_token_seconds_bucket{model_name="a\"b",engine="0",le="+Inf"} 1)",
           "vllm:e2e_request_latency_seconds_sum" + labels + " 2",
           "vllm:request_time_per_output_token_seconds_sum" + labels + " 1",
           "vllm:inter_token_latency_seconds_count" + labels + " 1"}) {
    EXPECT_NE(text.find(line + "\n"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace grille::server
