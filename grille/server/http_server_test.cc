#include "grille/server/http_server.h"

#include <gtest/gtest.h>

#include "grille/server/test_client.h"

namespace grille::server {
namespace {

using namespace std::chrono_literals;
using testing::Answer;
using testing::Client;
using testing::events_of;
using testing::get;
using testing::post;

class HttpServerTest : public ::testing::Test {
 protected:
  void start() { server_.start(); }
  Answer ask(const std::string& request) const { return server_.ask(request); }
  Answer complete(const std::string& fields, const std::string& head = "") const {
    return ask(post("/v1/completions", R"({"prompt":"abc")" + fields + "}", head));
  }
  std::uint16_t port() const { return server_.http->port(); }
  bool idle() const {
    return server_.eventually([&] { return server_.loop->stats().live == 0; });
  }
  testing::TestServer server_;
};

constexpr const char* kEndless = R"(,"max_tokens":4000)";

TEST_F(HttpServerTest, AnswersACompletionAndAChat) {
  start();
  const Answer completion = complete(R"(,"max_tokens":5)", "X-Request-Id: me\r\n");
  EXPECT_EQ(completion.status, 200);
  EXPECT_TRUE(completion.has("X-Request-Id: me"));
  const Json json = completion.json();
  EXPECT_EQ(json["id"], "cmpl-me");
  EXPECT_EQ(json["choices"][0]["text"], "abcab");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["completion_tokens"], 5);

  const Answer chat = ask(post("/v1/chat/completions",
                               R"({"messages":[{"role":"user","content":"x"}],"max_completion_tokens":6})"));
  EXPECT_EQ(chat.status, 200);
  EXPECT_EQ(chat.json()["choices"][0]["message"]["content"], "[user]");
}

TEST_F(HttpServerTest, ChoicesAreInOrder) {
  start();
  const Json json = ask(post("/v1/completions", R"({"prompt":["ab","cd"],"n":2,"max_tokens":2})")).json();
  std::string texts;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(json["choices"][i]["index"], i);
    texts += json["choices"][i]["text"].get<std::string>();
  }
  EXPECT_EQ(texts, "ababcdcd");
  EXPECT_EQ(json["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(json["usage"]["completion_tokens"], 8);
}

TEST_F(HttpServerTest, StreamsACompletion) {
  start();
  const Answer answer = complete(
      R"(,"max_tokens":4,"stream":true,"logprobs":0,"echo":true,"stream_options":{"include_usage":true})");
  EXPECT_TRUE(answer.has("Content-Type: text/event-stream; charset=utf-8"));
  const auto events = events_of(answer.body);
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events.back(), "[DONE]");
  std::string text;
  std::size_t logprobs = 0;
  for (std::size_t i = 0; i + 2 < events.size(); ++i) {
    const Json event = Json::parse(events[i]);
    text += event["choices"][0]["text"].get<std::string>();
    logprobs += event["choices"][0]["logprobs"]["tokens"].size();
    EXPECT_EQ(event["choices"][0]["finish_reason"].is_null(), i + 3 < events.size());
  }
  EXPECT_EQ(text, "abcabca");
  EXPECT_EQ(logprobs, 7u);
  const Json usage = Json::parse(events[events.size() - 2]);
  EXPECT_EQ(usage["choices"].size(), 0u);
  EXPECT_EQ(usage["usage"]["total_tokens"], 7);
}

TEST_F(HttpServerTest, StreamsAChatWithItsRoleFirst) {
  start();
  const Answer answer =
      ask(post("/v1/chat/completions",
               R"({"messages":[{"role":"user","content":"x"}],"max_tokens":3,"stream":true})"));
  const auto events = events_of(answer.body);
  EXPECT_EQ(Json::parse(events[0])["choices"][0]["delta"]["role"], "assistant");
  std::string text;
  for (std::size_t i = 0; i + 1 < events.size(); ++i)
    text += Json::parse(events[i])["choices"][0]["delta"]["content"].get<std::string>();
  EXPECT_EQ(text, "[us");
}

TEST_F(HttpServerTest, AStopStringEndsTheEnginesWork) {
  start();
  const Json json = complete(R"(,"stop":"ca","max_tokens":4000)").json();
  EXPECT_EQ(json["choices"][0]["text"], "ab");
  EXPECT_EQ(json["choices"][0]["stop_reason"], "ca");
  EXPECT_EQ(json["usage"]["completion_tokens"], 4);
  EXPECT_TRUE(idle());
}

TEST_F(HttpServerTest, EngineRequestsCarryTheFields) {
  start();
  complete(
      R"(,"max_tokens":2,"min_tokens":1,"seed":3,"temperature":0.25,"logprobs":2,"echo":true,"ignore_eos":true)");
  const engine::Request request = server_.engine->last_request();
  EXPECT_EQ(request.min_tokens, 1);
  EXPECT_EQ(request.sampling.seed, 3u);
  EXPECT_EQ(request.sampling.temperature, 0.25);
  EXPECT_EQ(request.top_logprobs, 2);
  EXPECT_TRUE(request.prompt_logprobs);
  EXPECT_TRUE(request.stop_tokens.empty());
}

TEST_F(HttpServerTest, LmEvalsRequestGetsPromptLengthPlusOneEntries) {
  start();
  const Answer answer = ask(post(
      "/v1/completions",
      R"({"model":"test","prompt":[[7,8,9],[1,2]],"temperature":0,"max_tokens":1,"logprobs":1,"seed":1234,"echo":true})"));
  const Json json = answer.json();
  for (const std::size_t i : {0u, 1u}) {
    const Json logprobs = json["choices"][i]["logprobs"];
    const std::size_t length = i == 0 ? 3 : 2;
    EXPECT_EQ(logprobs["token_logprobs"].size(), length + 1);
    EXPECT_EQ(logprobs["tokens"].size(), length + 1);
    EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
    for (std::size_t k = 1; k <= length; ++k) EXPECT_TRUE(logprobs["top_logprobs"][k].is_object());
  }
}

TEST_F(HttpServerTest, StatusesOfWhatIsWrong) {
  start();
  const auto status = [&](const std::string& request) { return ask(request).status; };
  EXPECT_EQ(status(get("/nowhere")), 404);
  EXPECT_EQ(status(get("/v1/completions")), 405);
  EXPECT_TRUE(ask(get("/v1/completions")).has("Allow: POST"));
  EXPECT_EQ(status("DELETE /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"), 405);
  EXPECT_EQ(status("BREW /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"), 405);
  EXPECT_EQ(status("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"), 415);
  EXPECT_EQ(status(post("/v1/completions", "{")), 400);
  EXPECT_EQ(status(post("/v1/completions", "{}")), 400);
  EXPECT_EQ(status(post("/v1/completions", R"({"prompt":"x","model":"other"})")), 404);
  EXPECT_EQ(status("nonsense\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/9.9\r\n\r\n"), 400);
  EXPECT_EQ(
      status("POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}"),
      400);
  EXPECT_EQ(status(get("/v1/models/alias")), 200);
  EXPECT_EQ(status(get("/v1/models/none")), 404);
  const Json error = ask(post("/v1/completions", R"({"prompt":"x","n":0})")).json()["error"];
  EXPECT_EQ(error["param"], "n");
  EXPECT_EQ(error["code"], 400);
}

TEST_F(HttpServerTest, EndpointsAnswer) {
  start();
  EXPECT_EQ(ask(get("/health")).status, 200);
  EXPECT_EQ(ask(get("/health")).body, "");
  EXPECT_EQ(ask(get("/v1/models")).json()["data"][1]["id"], "alias");
  EXPECT_EQ(ask(get("/v1/models")).json()["data"][0]["max_model_len"], 4096);
  EXPECT_TRUE(ask(get("/version")).json().contains("version"));
  EXPECT_EQ(ask(get("/model_card")).json()["architecture"], "none");
  EXPECT_NE(ask(get("/metrics")).body.find("vllm:num_requests_running"), std::string::npos);
  EXPECT_NE(ask(get("/")).body.find("<!doctype html>"), std::string::npos);
  EXPECT_NE(ask(get("/")).head.find("Content-Security-Policy: default-src 'self'"), std::string::npos);
  EXPECT_EQ(ask(post("/tokenize", R"({"prompt":"ab"})")).json()["count"], 2);
  const Answer head = ask("HEAD /version HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.head.find("Content-Length: 19"), std::string::npos);
}

TEST_F(HttpServerTest, KeysGuardTheApiAndNotItsHealth) {
  server_.options.api_keys = {"secret"};
  start();
  const Answer refused = complete("");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.body, R"({"error":"Unauthorized"})");
  EXPECT_EQ(complete("", "Authorization: Bearer wrong\r\n").status, 401);
  EXPECT_EQ(complete("", "Authorization: Bearer secret\r\n").status, 200);
  for (const char* open : {"/health", "/metrics", "/version", "/"})
    EXPECT_EQ(ask(get(open)).status, 200) << open;
  for (const char* guarded : {"/v1/models", "/model_card"})
    EXPECT_EQ(ask(get(guarded)).status, 401) << guarded;
  EXPECT_EQ(ask(post("/tokenize", R"({"prompt":"ab"})")).status, 401);
}

TEST_F(HttpServerTest, PagesElsewhereAreNotLetInUnlessTheyAreNamed) {
  start();
  const std::string preflight = "OPTIONS /v1/completions HTTP/1.1\r\nHost: x\r\nOrigin: http://page\r\n\r\n";
  EXPECT_EQ(ask(preflight).status, 405);
  EXPECT_EQ(ask(preflight).head.find("Access-Control"), std::string::npos);
  EXPECT_EQ(complete("", "Origin: http://page\r\n").head.find("Access-Control"), std::string::npos);
}

TEST_F(HttpServerTest, NamedOriginsAreLetIn) {
  server_.options.allowed_origins = {"http://page"};
  start();
  EXPECT_TRUE(ask("OPTIONS /v1/completions HTTP/1.1\r\nHost: x\r\nOrigin: http://page\r\n\r\n")
                  .has("Access-Control-Allow-Origin: http://page"));
  EXPECT_TRUE(complete("", "Origin: http://page\r\n").has("Access-Control-Allow-Origin: http://page"));
  EXPECT_TRUE(complete(R"(,"stream":true)", "Origin: http://page\r\n")
                  .has("Access-Control-Allow-Origin: http://page"));
  EXPECT_EQ(complete("", "Origin: http://other\r\n").head.find("Access-Control"), std::string::npos);
}

TEST_F(HttpServerTest, AConnectionServesRequestsSentAhead) {
  start();
  Client client(port());
  client.send(post("/v1/completions", R"({"prompt":"a","max_tokens":1})") +
              post("/v1/completions", R"({"prompt":"b","max_tokens":2,"stream":true})") + get("/version"));
  EXPECT_EQ(client.read().json()["choices"][0]["text"], "a");
  EXPECT_NE(client.read().body.find("[DONE]"), std::string::npos);
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(HttpServerTest, BodiesMayBeChunkedAndAnnounced) {
  start();
  Client chunked(port());
  chunked.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"pro\r\n");
  chunked.send("1a\r\nmpt\":\"abc\",\"max_tokens\":2}\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.read().json()["choices"][0]["text"], "ab");

  Client careful(port());
  const std::string body = R"({"prompt":"abc","max_tokens":2})";
  const std::string request = post("/v1/completions", body, "Expect: 100-continue\r\n");
  careful.send(request.substr(0, request.size() - body.size()));
  EXPECT_EQ(careful.read().status, 100);
  careful.send(body);
  EXPECT_EQ(careful.read().status, 200);
}

TEST_F(HttpServerTest, Http10GetsNoChunks) {
  start();
  Client client(port());
  std::string request = post("/v1/completions", R"({"prompt":"abc","max_tokens":2,"stream":true})");
  request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
  client.send(request);
  const std::string all = client.receive_until_closed();
  EXPECT_EQ(all.find("chunked"), std::string::npos);
  EXPECT_EQ(events_of(all.substr(all.find("\r\n\r\n") + 4)).back(), "[DONE]");
}

TEST_F(HttpServerTest, SizesAreLimited) {
  server_.options.max_body_bytes = 1000;
  server_.options.max_header_bytes = 2000;
  server_.options.max_header_fields = 20;
  start();
  const std::string large = R"({"prompt":")" + std::string(2000, 'x') + "\"}";
  EXPECT_EQ(ask(post("/v1/completions", large)).status, 413);
  EXPECT_EQ(ask("POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: "
                "chunked\r\n\r\n"
                "7d0\r\n" +
                std::string(2000, ' ') + "\r\n0\r\n\r\n")
                .status,
            413);
  EXPECT_EQ(ask(get("/health", "X: " + std::string(3000, 'x') + "\r\n")).status, 431);
  std::string fields;
  for (int i = 0; i < 30; ++i) fields += fmt::format("X{}: y\r\n", i);
  EXPECT_EQ(ask(get("/health", fields)).status, 431);
  EXPECT_EQ(complete("").status, 200);
}

TEST_F(HttpServerTest, TooManyConnectionsAreTurnedAway) {
  server_.options.max_connections = 2;
  start();
  Client first(port());
  Client second(port());
  first.send(get("/health"));
  second.send(get("/health"));
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(second.read().status, 200);
  Client third(port());
  EXPECT_EQ(third.read().status, 503);
  first.leave();
  EXPECT_TRUE(server_.eventually([&] { return ask(get("/health")).status == 200; }));
}

TEST_F(HttpServerTest, SlowHeadersAndIdleConnectionsAreCutOff) {
  server_.options.header_timeout = 200ms;
  server_.options.idle_timeout = 400ms;
  server_.options.body_timeout = 200ms;
  start();
  const auto begin = std::chrono::steady_clock::now();
  Client idle(port());
  EXPECT_EQ(idle.receive_until_closed(), "");
  Client slow_header(port());
  slow_header.send("GET /health HT");
  EXPECT_EQ(slow_header.receive_until_closed(), "");
  Client slow_body(port());
  slow_body.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(slow_body.receive_until_closed(), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

// What a client that leaves was waiting for: an answer, a stream, an answer with another request behind it.
TEST_F(HttpServerTest, AClientThatLeavesIsAborted) {
  server_.engine_options.step_time = 1ms;
  start();
  const std::string whole = post("/v1/completions", std::string(R"({"prompt":"abc")") + kEndless + "}");
  const std::string stream =
      post("/v1/completions", std::string(R"({"prompt":"abc","stream":true)") + kEndless + "}");
  std::int64_t aborts = 0;
  for (const std::string& request : {whole, stream, whole + get("/health")}) {
    Client client(port());
    client.send(request);
    ASSERT_TRUE(server_.eventually([&] { return server_.loop->stats().engine.running == 1; }));
    client.leave();
    EXPECT_TRUE(idle());
    EXPECT_EQ(server_.engine->aborts, ++aborts);
  }
  EXPECT_NE(ask(get("/metrics")).body.find("finished_reason=\"abort\"} 3"), std::string::npos);
}

TEST_F(HttpServerTest, AClientThatDoesNotReadIsAbortedAndSlowsNobody) {
  server_.engine_options.vocab_size = 263;
  server_.options.max_pending_events = 200;
  server_.options.send_buffer_bytes = 4096;
  server_.model = testing::test_model(10'000'000);
  server_.engine_options.max_positions = 10'000'000;
  server_.engine_options.step_time = 20us;
  start();
  Client slow(port(), 4096);
  slow.send(post("/v1/completions", R"({"prompt":"abc","stream":true,"max_tokens":9000000,"logprobs":20})"));
  ASSERT_TRUE(server_.eventually([&] { return server_.loop->stats().engine.running == 1; }));
  EXPECT_EQ(complete(R"(,"max_tokens":20)").status, 200);
  EXPECT_TRUE(server_.eventually([&] { return server_.engine->aborts == 1; }));
  EXPECT_TRUE(idle());
  EXPECT_EQ(complete(R"(,"max_tokens":20)").status, 200);
}

TEST_F(HttpServerTest, AFullQueueSaysWhenToComeBack) {
  server_.engine_options.step_time = 1ms;
  server_.engine_options.max_running = 1;
  server_.loop_options.max_queue = 1;
  start();
  const std::string request = post("/v1/completions", std::string(R"({"prompt":"abc")") + kEndless + "}");
  Client running(port());
  running.send(request);
  ASSERT_TRUE(server_.eventually([&] { return server_.loop->stats().engine.running == 1; }));
  Client waiting(port());
  waiting.send(request);
  ASSERT_TRUE(server_.eventually([&] { return server_.loop->stats().waiting == 1; }));
  const Answer refused = complete("");
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.has("Retry-After: 1"));
  EXPECT_EQ(refused.json()["error"]["type"], "ServiceUnavailableError");
}

TEST_F(HttpServerTest, AnEngineErrorIsToldAndServiceGoesOn) {
  server_.engine_options.step_time = 1ms;
  start();
  server_.engine->throw_in_steps = 1;
  const Answer whole = complete("");
  EXPECT_EQ(whole.status, 500);
  EXPECT_NE(whole.body.find("fake: a step that throws"), std::string::npos);

  Client stream(port());
  stream.send(post("/v1/completions", std::string(R"({"prompt":"abc","stream":true)") + kEndless + "}"));
  ASSERT_TRUE(server_.eventually([&] { return server_.loop->stats().engine.generated_tokens > 3; }));
  server_.engine->throw_in_steps = 1;
  const auto events = events_of(stream.read().body);
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(Json::parse(events[events.size() - 2])["error"]["code"], 500);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(complete("").status, 200);
}

TEST_F(HttpServerTest, WhatTheEngineRefusesIsTheClientsMistake) {
  server_.model.vocab_size = 1000;  // the engine knows 300
  start();
  for (const char* stream : {"false", "true"}) {
    const Answer answer =
        ask(post("/v1/completions", std::string(R"({"prompt":[[1],[500]],"stream":)") + stream + "}"));
    EXPECT_EQ(answer.status, 400);
    EXPECT_NE(answer.body.find("outside the vocabulary"), std::string::npos);
  }
  EXPECT_TRUE(idle());
}

TEST_F(HttpServerTest, DrainingFinishesWhatRunsAndTakesNothingNew) {
  server_.engine_options.step_time = 1ms;
  start();
  Client idle_client(port());
  idle_client.send(get("/health"));
  EXPECT_EQ(idle_client.read().status, 200);
  Client running(port());
  running.send(post("/v1/completions", R"({"prompt":"abc","stream":true,"max_tokens":300})"));
  ASSERT_TRUE(server_.eventually([&] { return server_.loop->stats().engine.running == 1; }));
  server_.http->stop_accepting();
  EXPECT_EQ(idle_client.receive_until_closed(), "");
  EXPECT_TRUE(server_.eventually([&] { return !Client(port()).connected(); }));
  EXPECT_TRUE(server_.loop->drain(std::chrono::steady_clock::now() + 10s));
  EXPECT_EQ(events_of(running.read().body).back(), "[DONE]");
  running.leave();
  EXPECT_TRUE(server_.http->finish(std::chrono::steady_clock::now() + 10s));
}

TEST_F(HttpServerTest, DrainingEndsAtItsDeadlineWithAWord) {
  server_.engine_options.step_time = 1ms;
  start();
  Client stream(port());
  stream.send(post("/v1/completions", std::string(R"({"prompt":"abc","stream":true)") + kEndless + "}"));
  Client whole(port());
  whole.send(post("/v1/completions", std::string(R"({"prompt":"abc")") + kEndless + "}"));
  ASSERT_TRUE(server_.eventually([&] { return server_.loop->stats().engine.running == 2; }));
  server_.http->stop_accepting();
  EXPECT_FALSE(server_.loop->drain(std::chrono::steady_clock::now() + 20ms));
  const auto events = events_of(stream.read().body);
  EXPECT_NE(events[events.size() - 2].find("shutting down"), std::string::npos);
  EXPECT_EQ(whole.read().status, 503);
}

TEST_F(HttpServerTest, ServersEndWithClientsInThem) {
  server_.engine_options.step_time = 1ms;
  start();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<Client>(port()));
    const std::string stream = i % 2 == 0 ? "true" : "false";
    clients.back()->send(
        post("/v1/completions", R"({"prompt":"abc","max_tokens":4000,"stream":)" + stream + "}"));
  }
  ASSERT_TRUE(server_.eventually([&] { return server_.loop->stats().live == 6; }));
  server_.http.reset();
  for (const auto& client : clients) client->receive_until_closed();
}

TEST_F(HttpServerTest, AnAddressThatCannotBeUsedIsNamed) {
  start();
  ServerOptions options;
  options.port = port();
  const auto message = [&]() -> std::string {
    try {
      const HttpServer second(server_.model, *server_.loop, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message().find("cannot listen there"), std::string::npos);
  options.host = "not an address";
  EXPECT_NE(message().find("cannot listen there"), std::string::npos);
}

}  // namespace
}  // namespace grille::server
