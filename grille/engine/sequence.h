// A request on its way through the engine.
#pragma once

#include <utility>
#include <vector>

#include "grille/engine/engine.h"
#include "grille/engine/kv_pages.h"

namespace grille::engine {

struct Sequence {
  Sequence(RequestId request_id, Request from, std::int64_t vocab_size)
      : id(request_id),
        request(std::move(from)),
        tokens(request.prompt),
        sampler(request.sampling, request.prompt, vocab_size) {}

  RequestId id;
  Request request;
  std::vector<std::int32_t> tokens;  // prompt and output
  std::int64_t computed = 0;         // tokens whose keys and values are in the cache
  PageList pages;
  Sampler sampler;
  bool admitted = false;                          // once; a preempted sequence was
  std::int64_t cached_prompt_tokens = 0;          // when it was first admitted
  std::vector<PositionLogprobs> prompt_logprobs;  // of positions 1, 2, ... so far

  std::int64_t length() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t prompt_length() const { return static_cast<std::int64_t>(request.prompt.size()); }
  std::int64_t generated() const { return length() - prompt_length(); }
  std::int64_t pending() const { return length() - computed; }  // 1: it decodes
  // Whether the prompt's log-probabilities are still to be computed: they are handed out with the first
  // token.
  bool wants_prompt_logprobs() const { return request.prompt_logprobs && generated() == 0; }
};

}  // namespace grille::engine
