#include "grille/engine/local_engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include <ATen/ops/log_softmax.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/models/tiny_decoder.h"
#include "grille/nn/attention.h"

namespace grille::engine {
namespace {

constexpr std::int32_t kVocab = 50;

at::Tensor all_logits(const models::Decoder& model, const std::vector<std::int32_t>& ids) {
  std::vector<std::int64_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  nn::SegmentAttention attention({static_cast<std::int64_t>(ids.size())});
  return model.logits(model.forward(ids, positions, attention));
}

std::int32_t greedy_next(const models::Decoder& model, const std::vector<std::int32_t>& ids) {
  const at::Tensor logits = all_logits(model, ids);
  return static_cast<std::int32_t>(logits[logits.size(0) - 1].argmax().item<std::int64_t>());
}

std::vector<TokenEvent> run(Engine& engine) {
  std::vector<TokenEvent> events;
  while (!engine.idle()) {
    for (const TokenEvent& event : engine.step()) events.push_back(event);
  }
  return events;
}

Request request(std::vector<std::int32_t> prompt, std::int64_t max_tokens) {
  Request result;
  result.prompt = std::move(prompt);
  result.max_tokens = max_tokens;
  return result;
}

std::vector<std::int32_t> random_tokens(std::mt19937& random, std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % kVocab);
  return tokens;
}

class LocalEngineTest : public testing::Test {
 protected:
  const c10::InferenceMode inference_;
  const models::Decoder model_ = models::tiny_decoder(/*max_positions=*/128);
};

TEST_F(LocalEngineTest, CachedDecodingEqualsRunningTheWholeSequence) {
  const std::vector<std::int32_t> tokens = {3, 14, 15, 9,  26, 5,  35, 8,  9, 7,
                                            9, 3,  2,  38, 46, 26, 43, 38, 32};
  for (const std::int64_t chunk : {1, 5, 512}) {
    LocalEngine engine(model_, {.max_batched_tokens = chunk, .max_sequences = 1});
    engine.submit(request(tokens, 20));
    std::vector<std::int32_t> sequence = tokens;
    for (const TokenEvent& event : run(engine)) {
      ASSERT_EQ(event.token, greedy_next(model_, sequence)) << "chunk " << chunk;
      sequence.push_back(event.token);
    }
    EXPECT_EQ(sequence.size(), tokens.size() + 20);
  }
}

TEST_F(LocalEngineTest, EndsAtAStopTokenAtTheLimitAndAtTheContext) {
  const std::int32_t first = greedy_next(model_, {1, 2, 3});
  LocalEngine engine(model_, {.max_positions = 8});
  Request stopping = request({1, 2, 3}, 5);
  stopping.stop_tokens = {first};
  engine.submit(stopping);
  auto events = run(engine);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events.back().finish, FinishReason::kStop);
  engine.submit(request({1, 2, 3}, 2));
  events = run(engine);
  EXPECT_EQ(events.size(), 2u);
  EXPECT_EQ(events.back().finish, FinishReason::kLength);
  engine.submit(request({1, 2, 3}, 100));  // positions 3 to 7 are free
  events = run(engine);
  EXPECT_EQ(events.size(), 5u);
  EXPECT_EQ(events.back().finish, FinishReason::kLength);
}

TEST_F(LocalEngineTest, StopTokensDoNotComeBeforeMinTokens) {
  const std::int32_t first = greedy_next(model_, {1, 2, 3});
  LocalEngine engine(model_, {});
  Request stopping = request({1, 2, 3}, 12);
  stopping.min_tokens = 4;
  stopping.stop_tokens.resize(kVocab);  // every token
  std::iota(stopping.stop_tokens.begin(), stopping.stop_tokens.end(), 0);
  std::erase(stopping.stop_tokens, first == 17 ? 18 : 17);  // but one
  engine.submit(stopping);
  const auto events = run(engine);
  ASSERT_GE(events.size(), 5u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(events[i].token, first == 17 ? 18 : 17);
  // Reported under the model's own distribution, not under the masked one.
  const at::Tensor logprobs = at::log_softmax(all_logits(model_, {1, 2, 3})[2], 0);
  EXPECT_NEAR(events[0].logprob, logprobs[events[0].token].item<float>(), 1e-5f);
}

TEST_F(LocalEngineTest, ServesRequestsInOrderAndForgetsAbortedOnes) {
  LocalEngine engine(model_, {.max_positions = 16, .max_sequences = 1});
  const RequestId a = engine.submit(request({1, 2}, 3));
  const RequestId b = engine.submit(request({4, 5}, 3));
  const RequestId c = engine.submit(request({6, 7}, 3));
  engine.step();
  engine.abort(a);
  engine.abort(b);
  engine.abort(b);
  std::vector<RequestId> served;
  for (const TokenEvent& event : run(engine)) served.push_back(event.request);
  EXPECT_EQ(served, (std::vector<RequestId>{c, c, c}));
  // One page was all there is: it came back each time.
  EXPECT_EQ(engine.stats().pages, 1);
  for (int i = 0; i < 5; ++i) {
    engine.submit(request({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 4));
    EXPECT_EQ(run(engine).size(), 4u);
  }
}

TEST_F(LocalEngineTest, RefusesRequestsThatCannotRun) {
  LocalEngine engine(model_, {.max_positions = 8});
  const auto refused = [&](auto change) {
    Request bad = request({1, 2}, 3);
    change(bad);
    EXPECT_THROW(engine.submit(bad), Error);
  };
  refused([](Request& r) { r.prompt = {}; });
  refused([](Request& r) { r.prompt = {kVocab}; });
  refused([](Request& r) { r.prompt = {-1}; });
  refused([](Request& r) { r.prompt.resize(8); });
  refused([](Request& r) { r.max_tokens = 0; });
  refused([](Request& r) { r.min_tokens = 4; });
  refused([](Request& r) { r.min_tokens = -1; });
  refused([](Request& r) { r.top_logprobs = 21; });
  refused([](Request& r) { r.sampling.top_p = 2; });
  refused([](Request& r) { r.sampling.logit_bias = {{kVocab, 1.0f}}; });
  EXPECT_TRUE(engine.idle());
}

TEST_F(LocalEngineTest, TheCacheLimitsTheContext) {
  const std::int64_t page = page_bytes(model_.config(), at::kFloat);
  EXPECT_EQ(page, 2 * 16 * 2 * 2 * 8 * 4);
  EXPECT_EQ(LocalEngine(model_, {.kv_bytes = 3 * page}).max_positions(), 48);
  EXPECT_EQ(LocalEngine(model_, {.kv_pages = 2}).max_positions(), 32);
  EXPECT_EQ(LocalEngine(model_, {.max_sequences = 3}).stats().pages, 3 * 8);
  EXPECT_THROW(LocalEngine(model_, {.kv_bytes = page - 1}), Error);
  EXPECT_THROW(LocalEngine(model_, {.kv_pages = -1}), Error);
  EXPECT_THROW(LocalEngine(model_, {.max_batched_tokens = 3, .max_sequences = 4}), Error);
}

// Requests of many kinds; some share the beginning of their prompts.
std::vector<Request> mixed_requests() {
  std::mt19937 random(5);
  const std::vector<std::int32_t> beginning = random_tokens(random, 40);
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::vector<std::int32_t> prompt = i % 4 == 1 ? beginning : std::vector<std::int32_t>();
    for (const std::int32_t token : random_tokens(random, 1 + random() % 30)) prompt.push_back(token);
    Request r = request(std::move(prompt), 10 + static_cast<std::int64_t>(random() % 30));
    if (i % 2 == 1) {
      r.sampling.temperature = 1.0;
      r.sampling.seed = i;
    }
    if (i % 5 == 2) r.sampling.repetition_penalty = 1.3;
    if (i % 5 == 3) r.sampling.frequency_penalty = 0.5;
    if (i % 5 == 4) r.sampling.presence_penalty = 1.0;
    r.prompt_logprobs = i % 6 == 0;
    r.top_logprobs = static_cast<std::int64_t>(i % 3);
    requests.push_back(std::move(r));
  }
  return requests;
}

struct Outcome {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;  // of the tokens, then of the prompt
};

std::map<RequestId, Outcome> outcomes(Engine& engine) {
  std::map<RequestId, Outcome> result;
  std::map<RequestId, std::vector<float>> prompts;
  for (const TokenEvent& event : run(engine)) {
    EXPECT_FALSE(event.error.has_value());
    result[event.request].tokens.push_back(event.token);
    result[event.request].logprobs.push_back(event.logprob);
    for (const PositionLogprobs& position : event.prompt) {
      prompts[event.request].push_back(position.token.logprob);
      EXPECT_EQ(position.top.size(), event.top.size());
    }
  }
  for (const auto& [id, prompt] : prompts) {
    for (const float logprob : prompt) result[id].logprobs.push_back(logprob);
  }
  return result;
}

struct Arrangement {
  const char* name;
  LocalEngineOptions options;
  bool preempts = false;
};

TEST_F(LocalEngineTest, TheOthersDoNotChangeARequest) {
  const std::vector<Request> requests = mixed_requests();
  std::vector<Outcome> alone;
  for (const Request& r : requests) {
    LocalEngine engine(model_, {.max_sequences = 1, .prefix_cache = false});
    engine.submit(r);
    alone.push_back(outcomes(engine).begin()->second);
  }
  const std::vector<Arrangement> arrangements = {
      {"together", {}},
      {"in small chunks", {.max_batched_tokens = 7, .max_sequences = 7}},
      {"with few pages", {.kv_pages = 12}, true},
      {"with few pages, in chunks", {.max_batched_tokens = 9, .max_sequences = 9, .kv_pages = 12}, true},
      {"with few pages and no prefixes", {.kv_pages = 12, .prefix_cache = false}, true}};
  for (const Arrangement& arrangement : arrangements) {
    LocalEngine engine(model_, arrangement.options);
    for (const int round : {1, 2}) {  // the second finds prefixes
      std::vector<RequestId> ids;
      for (const Request& r : requests) ids.push_back(engine.submit(r));
      const auto together = outcomes(engine);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const Outcome& outcome = together.at(ids[i]);
        EXPECT_EQ(outcome.tokens, alone[i].tokens) << arrangement.name << ", round " << round << ": " << i;
        ASSERT_EQ(outcome.logprobs.size(), alone[i].logprobs.size());
        // Sums of float32 in another order, at most: 2 layers of at most 40 terms, of size 10.
        for (std::size_t k = 0; k < outcome.logprobs.size(); ++k) {
          EXPECT_NEAR(outcome.logprobs[k], alone[i].logprobs[k], 1e-4f) << arrangement.name << ": " << i;
        }
      }
      EXPECT_EQ(engine.stats().pages_in_use, 0) << arrangement.name;
    }
    EXPECT_EQ(engine.stats().preemptions > 0, arrangement.preempts) << arrangement.name;
    EXPECT_EQ(engine.stats().prefix_hits > 0, arrangement.options.prefix_cache) << arrangement.name;
  }
}

TEST_F(LocalEngineTest, AWhollyCachedPromptComputesItsLastToken) {
  std::mt19937 random(1);
  const std::vector<std::int32_t> prompt = random_tokens(random, 48);
  LocalEngine engine(model_, {});
  engine.submit(request(prompt, 2));
  const auto first = run(engine);
  EXPECT_EQ(first[0].cached_prompt_tokens, 0);
  engine.submit(request(prompt, 2));
  const auto second = run(engine);
  EXPECT_EQ(second[0].cached_prompt_tokens, 32);
  EXPECT_EQ(second[0].token, first[0].token);
  EXPECT_EQ(engine.stats().prompt_tokens, 48 + 16);
}

TEST_F(LocalEngineTest, ScoresPrompts) {
  std::mt19937 random(2);
  const std::vector<std::int32_t> prompt = random_tokens(random, 40);
  const at::Tensor expected = at::log_softmax(all_logits(model_, prompt), 1);
  LocalEngine engine(model_, {.max_batched_tokens = 12, .max_sequences = 2});
  for (int round = 0; round < 2; ++round) {
    Request scored = request(prompt, 2);
    scored.prompt_logprobs = true;
    scored.top_logprobs = 3;
    engine.submit(scored);
    const auto events = run(engine);
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].cached_prompt_tokens, 0);
    ASSERT_EQ(events[0].prompt.size(), 39u);
    EXPECT_TRUE(events[1].prompt.empty());
    for (std::size_t i = 0; i < 39; ++i) {
      const PositionLogprobs& position = events[0].prompt[i];
      const at::Tensor row = expected[static_cast<std::int64_t>(i)];
      EXPECT_EQ(position.token.token, prompt[i + 1]);
      EXPECT_NEAR(position.token.logprob, row[prompt[i + 1]].item<float>(), 1e-4f);
      ASSERT_EQ(position.top.size(), 3u);
      const auto [values, indices] = row.topk(3);
      for (std::int64_t k = 0; k < 3; ++k) {
        EXPECT_EQ(position.top[static_cast<std::size_t>(k)].token, indices[k].item<std::int64_t>());
      }
    }
  }
}

// Allows tokens that continue with the parity that was not there last.
class Alternating final : public TokenConstraint {
 public:
  void allowed_tokens(std::span<std::uint8_t> allowed) override {
    for (std::size_t id = 0; id < allowed.size(); ++id) allowed[id] = id % 2 == next_;
  }
  void accept(std::int32_t token) override {
    EXPECT_EQ(static_cast<std::size_t>(token) % 2, next_);
    next_ = 1 - next_;
  }

 private:
  std::size_t next_ = 0;
};

TEST_F(LocalEngineTest, AConstraintIsKeptThroughPreemption) {
  LocalEngine engine(model_, {.kv_pages = 6});
  std::vector<RequestId> ids;
  for (std::int32_t i = 0; i < 4; ++i) {
    Request r = request({1, 2, i}, 40);
    r.sampling.temperature = i % 2;
    r.constraint = std::make_shared<Alternating>();
    ids.push_back(engine.submit(r));
  }
  std::map<RequestId, std::int32_t> count;
  for (const TokenEvent& event : run(engine)) EXPECT_EQ(event.token % 2, count[event.request]++ % 2);
  for (const RequestId id : ids) EXPECT_EQ(count[id], 40);
  EXPECT_GT(engine.stats().preemptions, 0);
}

class Failing final : public TokenConstraint {
 public:
  explicit Failing(bool throws) : throws_(throws) {}
  void allowed_tokens(std::span<std::uint8_t>) override {
    if (throws_) throw std::runtime_error("the grammar broke");
  }
  void accept(std::int32_t) override {}

 private:
  bool throws_;
};

TEST_F(LocalEngineTest, OneRequestsErrorLeavesTheOthersAlone) {
  models::Decoder model = models::tiny_decoder();
  const at::Tensor values = model.embedding.values.clone();  // the head keeps its own
  values[49].fill_(std::numeric_limits<float>::quiet_NaN());
  model.embedding = tensors::dense_weight(values);
  LocalEngine engine(model, {});
  engine.submit(request({1, 2, 3}, 6));
  const auto alone = run(engine);

  Request scored = request({1, 49, 3}, 6);
  scored.prompt_logprobs = true;
  Request throwing = request({1, 2, 3}, 6);
  throwing.constraint = std::make_shared<Failing>(true);
  Request stuck = request({1, 2, 3}, 6);
  stuck.constraint = std::make_shared<Failing>(false);
  const std::map<RequestId, ErrorCode> bad = {
      {engine.submit(request({1, 49, 3}, 6)), ErrorCode::kCorruptData},
      {engine.submit(scored), ErrorCode::kCorruptData},
      {engine.submit(throwing), ErrorCode::kInternal},
      {engine.submit(stuck), ErrorCode::kInvalidArgument}};
  const RequestId good = engine.submit(request({1, 2, 3}, 6));
  std::vector<std::int32_t> tokens;
  std::size_t errors = 0;
  for (const TokenEvent& event : run(engine)) {
    if (event.request == good) {
      tokens.push_back(event.token);
      continue;
    }
    ++errors;
    EXPECT_EQ(event.finish, FinishReason::kError);
    ASSERT_TRUE(event.error.has_value());
    EXPECT_EQ(event.error->code(), bad.at(event.request)) << event.error->what();
  }
  EXPECT_EQ(errors, bad.size());
  ASSERT_EQ(tokens.size(), alone.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], alone[i].token);
  EXPECT_EQ(engine.stats().pages_in_use, 0);
}

TEST_F(LocalEngineTest, AnInterruptedStepIsTriedAgain) {
  LocalEngine engine(model_, {});
  engine.submit(request({1, 2, 3}, 6));
  const auto expected = run(engine);
  engine.submit(request({1, 2, 3}, 6));
  std::vector<std::int32_t> tokens;
  while (!engine.idle()) {
    request_interrupt();
    EXPECT_THROW(engine.step(), Error);
    clear_interrupt();
    for (const TokenEvent& event : engine.step()) tokens.push_back(event.token);
  }
  ASSERT_EQ(tokens.size(), expected.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], expected[i].token);
}

TEST_F(LocalEngineTest, CountsWhatItDoes) {
  LocalEngine engine(model_, {.kv_pages = 8});
  engine.submit(request({1, 2, 3}, 2));
  engine.submit(request({4, 5}, 3));
  EXPECT_EQ(engine.stats().waiting, 2);
  engine.step();
  EngineStats stats = engine.stats();
  EXPECT_EQ(stats.running, 2);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.pages, 8);
  EXPECT_EQ(stats.pages_in_use, 2);
  EXPECT_EQ(stats.prompt_tokens, 5);
  EXPECT_EQ(stats.last_step_tokens, 5);
  run(engine);
  stats = engine.stats();
  EXPECT_EQ(stats.generated_tokens, 5);
  EXPECT_EQ(stats.prompt_tokens, 5);
  EXPECT_EQ(stats.steps, 3);
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.pages_in_use, 0);
  EXPECT_GT(engine.stage_seconds().decode_layers, 0.0);
  EXPECT_GT(engine.stage_seconds().prompt_layers, 0.0);
}

}  // namespace
}  // namespace grille::engine
