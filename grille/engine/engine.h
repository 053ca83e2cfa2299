// The engine's interface: requests in, tokens out, one step at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "grille/base/error.h"
#include "grille/engine/sampler.h"

namespace grille::engine {

using RequestId = std::int64_t;

// What a grammar asks of an engine: which tokens may come next. One request's, moved by what was sampled.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Sets allowed[id] to 1 for every token that may come next and to 0 for the others, [vocab_size].
  // Both may be called from any thread, but never from two at once.
  virtual void allowed_tokens(std::span<std::uint8_t> allowed) = 0;
  virtual void accept(std::int32_t token) = 0;
};

struct Request {
  std::vector<std::int32_t> prompt;  // at least one token
  std::int64_t max_tokens = 256;     // most tokens to generate
  // Stop tokens cannot come before so many were generated, unless the constraint allows nothing else.
  std::int64_t min_tokens = 0;
  std::vector<std::int32_t> stop_tokens;  // generation ends when one of these comes; it is reported too
  SamplingOptions sampling;
  // How many of the most probable tokens to report at every position, at most kMaxTopLogprobs. The token's
  // own log-probability is always reported.
  std::int64_t top_logprobs = 0;
  bool prompt_logprobs = false;  // report the prompt's tokens too, with as many alternatives
  std::shared_ptr<TokenConstraint> constraint;
};

constexpr std::int64_t kMaxTopLogprobs = 20;

enum class FinishReason {
  kStop,    // a stop token, or the caller said so
  kLength,  // max_tokens, or the model's context is full
  kError,   // this request alone went wrong: TokenEvent::error says how, and there is no token
};

struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0.0f;  // log of the token's probability under the model's own distribution
};

struct PositionLogprobs {
  TokenLogprob token;             // the token that stands there
  std::vector<TokenLogprob> top;  // the most probable ones, in falling order
};

struct TokenEvent {
  RequestId request = 0;
  std::int32_t token = 0;
  float logprob = 0.0f;
  std::vector<TokenLogprob> top;       // Request::top_logprobs of them, in falling order
  std::optional<FinishReason> finish;  // set on the request's last token
  // With a request's first token, if it asked: prompt positions 1, 2, ... (nothing predicts position 0).
  std::vector<PositionLogprobs> prompt;
  std::int64_t cached_prompt_tokens = 0;  // with the first token: tokens that the prefix cache supplied
  std::optional<Error> error;             // with FinishReason::kError
};

// What an engine is doing and has done; counters only grow.
struct EngineStats {
  std::int64_t running = 0;  // requests that hold cache
  std::int64_t waiting = 0;
  std::int64_t pages = 0;  // of the key/value cache
  std::int64_t pages_in_use = 0;
  std::int64_t prefix_queries = 0;  // prompt tokens that were looked up in the prefix cache
  std::int64_t prefix_hits = 0;     // ... and found there
  std::int64_t preemptions = 0;
  std::int64_t prompt_tokens = 0;  // computed
  std::int64_t generated_tokens = 0;
  std::int64_t steps = 0;
  std::int64_t last_step_tokens = 0;
};

// Not thread-safe: one thread owns an engine.
class Engine {
 public:
  virtual ~Engine() = default;
  // Queues a request. Throws Error{kInvalidArgument} when the prompt is empty, holds an id outside the
  // vocabulary, or leaves no room in the model's context or in the cache, or when an option is out of range.
  virtual RequestId submit(Request request) = 0;
  // Forgets a request and frees its cache. Unknown or finished ids are ignored.
  virtual void abort(RequestId request) = 0;
  // Does one step of work (pieces of prompts, one token of each running request) and returns the tokens that
  // it produced. What goes wrong for one request (logits that are not finite, a constraint that throws or
  // allows nothing) ends that request with kError; the others go on. What stops the whole step (an interrupt,
  // Error{kCancelled}; no memory, std::bad_alloc) is thrown, and every request is as it was before: the next
  // call tries again.
  virtual std::vector<TokenEvent> step() = 0;
  // True when no request is left.
  virtual bool idle() const = 0;
  virtual EngineStats stats() const = 0;
  // The longest sequence, prompt and output together.
  virtual std::int64_t max_positions() const = 0;
};

}  // namespace grille::engine
