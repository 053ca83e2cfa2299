#include "grille/engine/engine_loop.h"

#include <atomic>
#include <map>

#include <gtest/gtest.h>

#include "grille/engine/fake_engine.h"

namespace grille::engine {
namespace {

using namespace std::chrono_literals;

// Collects what requests hear; safe to ask from another thread. It must outlive the loop that calls it.
class Recorder {
 public:
  EventCallback callback() {
    return [this](std::size_t index, const RequestEvent& event) {
      {
        const std::lock_guard lock(mutex_);
        Heard& heard = heard_[index];
        if (std::holds_alternative<RequestAccepted>(event)) heard.accepted = true;
        if (const auto* token = std::get_if<TokenEvent>(&event)) {
          heard.tokens.push_back(token->token);
          heard.ended = token->finish.has_value();
        }
        if (const auto* failure = std::get_if<RequestFailure>(&event)) {
          heard.failure = *failure;
          heard.ended = true;
        }
      }
      changed_.notify_all();
    };
  }

  struct Heard {
    bool accepted = false;
    bool ended = false;
    std::vector<std::int32_t> tokens;
    std::optional<RequestFailure> failure;
  };

  Heard wait_until(std::size_t index, const std::function<bool(const Heard&)>& condition) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 10s, [&] { return condition(heard_[index]); }));
    return heard_[index];
  }
  Heard wait_for_end(std::size_t index) {
    return wait_until(index, [](const Heard& heard) { return heard.ended; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::size_t, Heard> heard_;
};

Request request(std::vector<std::int32_t> prompt, std::int64_t max_tokens) {
  Request result;
  result.prompt = std::move(prompt);
  result.max_tokens = max_tokens;
  return result;
}

std::vector<Request> endless(std::size_t count = 1) {
  return std::vector<Request>(count, request({7}, 1'000'000'000));
}

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

TEST(EngineLoop, GivesEachRequestItsOwnTokens) {
  FakeEngine engine;
  Recorder recorder;
  EngineLoop loop(engine, {});
  const Admission admission = loop.submit({request({1, 2}, 3), request({5}, 2)}, recorder.callback());
  ASSERT_EQ(std::get<std::vector<Ticket>>(admission).size(), 2u);
  const auto first = recorder.wait_for_end(0);
  EXPECT_TRUE(first.accepted);
  EXPECT_EQ(first.tokens, (std::vector<std::int32_t>{1, 2, 1}));
  EXPECT_EQ(recorder.wait_for_end(1).tokens, (std::vector<std::int32_t>{5, 5}));
  EXPECT_TRUE(eventually([&] { return loop.stats().live == 0; }));
}

TEST(EngineLoop, AnInvalidRequestFailsAloneWithTheEnginesWords) {
  FakeEngine engine;
  Recorder recorder;
  EngineLoop loop(engine, {});
  loop.submit({request({}, 3), request({5}, 2)}, recorder.callback());
  const auto bad = recorder.wait_for_end(0);
  ASSERT_TRUE(bad.failure.has_value());
  EXPECT_FALSE(bad.accepted);
  EXPECT_EQ(bad.failure->code, ErrorCode::kInvalidArgument);
  EXPECT_NE(bad.failure->message.find("no tokens"), std::string::npos);
  EXPECT_FALSE(recorder.wait_for_end(1).failure.has_value());
}

TEST(EngineLoop, AFullQueueRefusesAllOrNothing) {
  FakeEngine engine({.max_running = 1, .step_time = 1ms});
  Recorder recorder;
  EngineLoop loop(engine, {.max_queue = 3});
  loop.submit(endless(), recorder.callback());
  recorder.wait_until(0, [](const auto& heard) { return !heard.tokens.empty(); });  // it runs
  const Admission waiting = loop.submit(endless(2), recorder.callback());
  ASSERT_TRUE(std::holds_alternative<std::vector<Ticket>>(waiting));
  EXPECT_EQ(std::get<Refusal>(loop.submit(endless(2), recorder.callback())), Refusal::kQueueFull);
  EXPECT_EQ(loop.stats().refused, 2);
  EXPECT_EQ(loop.stats().waiting, 2);
  EXPECT_TRUE(std::holds_alternative<std::vector<Ticket>>(loop.submit(endless(1), recorder.callback())));
  EXPECT_EQ(std::get<Refusal>(loop.submit(endless(1), recorder.callback())), Refusal::kQueueFull);
}

TEST(EngineLoop, AbortFreesTheRequest) {
  FakeEngine engine({.max_running = 1, .step_time = 1ms});
  Recorder running;
  Recorder waiting;
  EngineLoop loop(engine, {});
  const auto a = std::get<std::vector<Ticket>>(loop.submit(endless(), running.callback()));
  running.wait_until(0, [](const auto& heard) { return heard.tokens.size() > 2; });
  loop.submit({request({9}, 2)}, waiting.callback());
  loop.abort(a[0]);
  loop.abort(a[0]);
  loop.abort(12345);
  EXPECT_EQ(waiting.wait_for_end(0).tokens, (std::vector<std::int32_t>{9, 9}));
  EXPECT_TRUE(eventually([&] { return loop.stats().live == 0; }));
  EXPECT_EQ(engine.aborts, 1);
}

TEST(EngineLoop, AStepThatThrowsFailsWhatItHeldAndTheLoopGoesOn) {
  FakeEngine engine({.step_time = 1ms});
  Recorder before;
  Recorder after;
  EngineLoop loop(engine, {});
  loop.submit(endless(2), before.callback());
  before.wait_until(1, [](const auto& heard) { return !heard.tokens.empty(); });
  engine.throw_in_steps = 1;
  for (const std::size_t index : {0u, 1u}) {
    const auto heard = before.wait_for_end(index);
    ASSERT_TRUE(heard.failure.has_value());
    EXPECT_EQ(heard.failure->code, ErrorCode::kInternal);
    EXPECT_EQ(heard.failure->message, "the engine failed in a step: fake: a step that throws");
  }
  loop.submit({request({3}, 2)}, after.callback());
  EXPECT_EQ(after.wait_for_end(0).tokens, (std::vector<std::int32_t>{3, 3}));
  EXPECT_EQ(loop.stats().failed_steps, 1);
  EXPECT_FALSE(loop.stats().broken);
}

TEST(EngineLoop, ARequestThatGoesWrongFailsAlone) {
  FakeEngine engine;
  engine.bad_token = 9;
  Recorder recorder;
  EngineLoop loop(engine, {});
  loop.submit({request({1, 9}, 5), request({2}, 3)}, recorder.callback());
  const auto bad = recorder.wait_for_end(0);
  EXPECT_EQ(bad.tokens, (std::vector<std::int32_t>{1}));
  ASSERT_TRUE(bad.failure.has_value());
  EXPECT_EQ(bad.failure->message, "fake: a request that goes wrong");
  EXPECT_EQ(recorder.wait_for_end(1).tokens.size(), 3u);
  EXPECT_TRUE(eventually([&] { return loop.stats().live == 0; }));
  EXPECT_EQ(loop.stats().failed_steps, 0);
}

TEST(EngineLoop, AnEngineThatCannotForgetIsNotAskedAgain) {
  FakeEngine engine({.step_time = 1ms});
  engine.keep_after_abort = true;
  engine.throw_in_steps = 1;
  Recorder recorder;
  EngineLoop loop(engine, {});
  loop.submit(endless(), recorder.callback());
  EXPECT_TRUE(recorder.wait_for_end(0).failure.has_value());
  ASSERT_TRUE(eventually([&] { return loop.stats().broken; }));
  EXPECT_EQ(std::get<Refusal>(loop.submit(endless(), recorder.callback())), Refusal::kBroken);
}

TEST(EngineLoop, DrainLetsRequestsEnd) {
  FakeEngine engine({.step_time = 1ms});
  Recorder recorder;
  EngineLoop loop(engine, {});
  loop.submit({request({1, 2}, 20)}, recorder.callback());
  EXPECT_TRUE(loop.drain(std::chrono::steady_clock::now() + 10s));
  EXPECT_EQ(recorder.wait_for_end(0).tokens.size(), 20u);
  EXPECT_EQ(std::get<Refusal>(loop.submit(endless(), recorder.callback())), Refusal::kDraining);
}

TEST(EngineLoop, DrainEndsAtItsDeadline) {
  FakeEngine engine({.max_running = 1, .step_time = 1ms});
  Recorder recorder;
  EngineLoop loop(engine, {});
  loop.submit(endless(2), recorder.callback());
  EXPECT_FALSE(loop.drain(std::chrono::steady_clock::now() + 50ms));
  for (const std::size_t index : {0u, 1u}) {
    const auto heard = recorder.wait_for_end(index);
    ASSERT_TRUE(heard.failure.has_value());
    EXPECT_EQ(heard.failure->code, ErrorCode::kCancelled);
  }
  EXPECT_EQ(loop.stats().live, 0);
  EXPECT_TRUE(engine.idle());
}

TEST(EngineLoop, ManyThreadsSubmitAndAbort) {
  FakeEngine engine({.max_running = 16});
  EngineLoop loop(engine, {.max_queue = 100000});
  std::atomic<int> ended{0};
  std::atomic<int> aborted{0};
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const bool stop_it = (i + t) % 3 == 0;
        const auto tickets = std::get<std::vector<Ticket>>(
            loop.submit({request({i % 300}, stop_it ? 1'000'000'000 : 1 + i % 5)},
                        [&](std::size_t, const RequestEvent& event) {
                          const auto* token = std::get_if<TokenEvent>(&event);
                          if (token != nullptr && token->finish) ++ended;
                        }));
        if (stop_it) {
          loop.abort(tickets[0]);
          ++aborted;
        }
        if (i % 50 == 0) loop.stats();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(loop.drain(std::chrono::steady_clock::now() + 30s));
  EXPECT_EQ(ended + aborted, 800);
  EXPECT_TRUE(engine.idle());
}

}  // namespace
}  // namespace grille::engine
