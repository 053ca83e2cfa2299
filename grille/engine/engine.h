// The engine's interface: requests in, tokens out, one step at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "grille/engine/sampler.h"

namespace grille::engine {

using RequestId = std::int64_t;

struct Request {
  std::vector<std::int32_t> prompt;       // at least one token
  std::int64_t max_tokens = 256;          // most tokens to generate
  std::vector<std::int32_t> stop_tokens;  // generation ends when one of these comes; it is reported too
  SamplingOptions sampling;
};

enum class FinishReason {
  kStop,    // a stop token, or the caller said so
  kLength,  // max_tokens, or the model's context is full
};

struct TokenEvent {
  RequestId request = 0;
  std::int32_t token = 0;
  float logprob = 0.0f;                // log of the token's probability under the model's own distribution
  std::optional<FinishReason> finish;  // set on the request's last token
};

// Not thread-safe: one thread owns an engine.
class Engine {
 public:
  virtual ~Engine() = default;
  // Queues a request. Throws Error{kInvalidArgument} when the prompt is empty, holds an id outside the
  // vocabulary, or leaves no room in the model's context or in the cache.
  virtual RequestId submit(Request request) = 0;
  // Forgets a request and frees its cache. Unknown or finished ids are ignored.
  virtual void abort(RequestId request) = 0;
  // Does one step of work (a piece of a prompt, or one token) and returns the tokens that it produced.
  virtual std::vector<TokenEvent> step() = 0;
  // True when no request is left.
  virtual bool idle() const = 0;
};

}  // namespace grille::engine
