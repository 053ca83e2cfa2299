// For tests: an engine without a model. Every request that it runs gets one token a step.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "grille/base/error.h"
#include "grille/engine/engine.h"

namespace grille::engine {

struct FakeEngineOptions {
  std::int64_t vocab_size = 300;
  std::int64_t max_positions = 4096;
  std::int64_t max_running = 4;
  std::chrono::microseconds step_time{0};
};

// Output: `script` over and over when it is set, else the prompt over and over. The log-probability of a
// token is
// -(id % 10 + 1) / 10, that of its k-th alternative id + k the same of that id, in falling order.
class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(FakeEngineOptions options = {}) : options_(options) {}

  std::vector<std::int32_t> script;
  std::atomic<int> throw_in_steps{0};       // so many steps that have work throw
  std::atomic<std::int32_t> bad_token{-1};  // a request that would get it goes wrong, alone
  std::atomic<bool> keep_after_abort{false};
  std::atomic<std::int64_t> aborts{0};

  // The last request that was taken.
  Request last_request() const {
    const std::lock_guard lock(mutex_);
    return last_request_;
  }

  RequestId submit(Request request) override {
    const std::lock_guard lock(mutex_);
    check(!request.prompt.empty(), ErrorCode::kInvalidArgument, "prompt: it has no tokens; give some text");
    for (const std::int32_t id : request.prompt) {
      check(id >= 0 && id < options_.vocab_size, ErrorCode::kInvalidArgument,
            "prompt: token id {} is outside the vocabulary of {}", id, options_.vocab_size);
    }
    last_request_ = request;
    queue_.push_back({next_id_, std::move(request)});
    return next_id_++;
  }

  void abort(RequestId id) override {
    const std::lock_guard lock(mutex_);
    if (keep_after_abort) return;
    const auto gone = std::erase_if(queue_, [&](const Sequence& s) { return s.id == id; });
    aborts += static_cast<std::int64_t>(gone);
  }

  std::vector<TokenEvent> step() override {
    if (options_.step_time.count() > 0) std::this_thread::sleep_for(options_.step_time);
    const std::lock_guard lock(mutex_);
    if (throw_in_steps > 0) {
      --throw_in_steps;
      fail(ErrorCode::kInternal, "fake: a step that throws");
    }
    std::vector<TokenEvent> events;
    const auto running = std::min<std::size_t>(queue_.size(), static_cast<std::size_t>(options_.max_running));
    for (std::size_t i = 0; i < running; ++i) events.push_back(advance(queue_[i]));
    std::erase_if(queue_, [](const Sequence& s) { return s.finished; });
    ++steps_;
    generated_ += static_cast<std::int64_t>(events.size());
    return events;
  }

  bool idle() const override {
    const std::lock_guard lock(mutex_);
    return queue_.empty();
  }

  EngineStats stats() const override {
    const std::lock_guard lock(mutex_);
    EngineStats stats;
    const auto count = static_cast<std::int64_t>(queue_.size());
    stats.running = std::min(count, options_.max_running);
    stats.waiting = count - stats.running;
    stats.pages = 100;
    stats.pages_in_use = stats.running;
    stats.steps = steps_;
    stats.generated_tokens = generated_;
    return stats;
  }

  std::int64_t max_positions() const override { return options_.max_positions; }

 private:
  struct Sequence {
    RequestId id = 0;
    Request request;
    std::int64_t generated = 0;
    bool finished = false;
  };

  static float logprob(std::int64_t id) { return -static_cast<float>(id % 10 + 1) / 10.0f; }

  std::vector<TokenLogprob> alternatives(std::int32_t token, std::int64_t count) const {
    std::vector<TokenLogprob> top;
    for (std::int64_t k = 0; k < count; ++k) {
      const auto id = static_cast<std::int32_t>((token + k) % options_.vocab_size);
      top.push_back({id, logprob(id)});
    }
    std::stable_sort(top.begin(), top.end(),
                     [](const TokenLogprob& a, const TokenLogprob& b) { return a.logprob > b.logprob; });
    return top;
  }

  TokenEvent advance(Sequence& sequence) {
    const Request& request = sequence.request;
    const std::vector<std::int32_t>& source = script.empty() ? request.prompt : script;
    TokenEvent event;
    event.request = sequence.id;
    event.token = source[static_cast<std::size_t>(sequence.generated) % source.size()];
    if (event.token == bad_token) {
      event.finish = FinishReason::kError;
      event.error = Error(ErrorCode::kInternal, "fake: a request that goes wrong");
      sequence.finished = true;
      return event;
    }
    event.logprob = logprob(event.token);
    event.top = alternatives(event.token, request.top_logprobs);
    if (sequence.generated == 0 && request.prompt_logprobs) {
      for (std::size_t i = 1; i < request.prompt.size(); ++i) {
        const std::int32_t id = request.prompt[i];
        event.prompt.push_back({{id, logprob(id)}, alternatives(id, request.top_logprobs)});
      }
    }
    ++sequence.generated;
    const auto& stops = request.stop_tokens;
    if (std::find(stops.begin(), stops.end(), event.token) != stops.end() &&
        sequence.generated > request.min_tokens) {
      event.finish = FinishReason::kStop;
    } else if (sequence.generated >= request.max_tokens) {
      event.finish = FinishReason::kLength;
    }
    sequence.finished = event.finish.has_value();
    return event;
  }

  const FakeEngineOptions options_;
  mutable std::mutex mutex_;
  std::deque<Sequence> queue_;
  Request last_request_;
  RequestId next_id_ = 1;
  std::int64_t steps_ = 0;
  std::int64_t generated_ = 0;
};

}  // namespace grille::engine
