// Offline throughput, as `vllm bench throughput` defines it: all requests are there at once.
#pragma once

#include <cstdint>

#include "grille/base/progress.h"
#include "grille/engine/local_engine.h"

namespace grille::engine {

struct ThroughputOptions {
  std::int64_t num_prompts = 32;
  std::int64_t input_len = 128;   // random token ids each
  std::int64_t output_len = 128;  // nothing ends a request earlier
  double temperature = 1.0;
  std::uint64_t seed = 0;
};

struct ThroughputResult {
  double elapsed_seconds = 0.0;  // from the first request's submission to the last token
  std::int64_t requests = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  std::int64_t steps = 0;
  double mean_batch = 0.0;  // tokens a step, of the steps that gave any
  std::int64_t preemptions = 0;
  StageSeconds stages;

  double requests_per_second() const { return static_cast<double>(requests) / elapsed_seconds; }
  double output_tokens_per_second() const { return static_cast<double>(output_tokens) / elapsed_seconds; }
  // Prompt and output together.
  double tokens_per_second() const {
    return static_cast<double>(prompt_tokens + output_tokens) / elapsed_seconds;
  }
};

// `engine` is new: its counts are the result's. Token ids are below `vocab_size`; no text is made of them.
// Throws Error{kInvalidArgument} for sizes below 1 or beyond the engine's context.
ThroughputResult run_throughput(LocalEngine& engine, std::int64_t vocab_size,
                                const ThroughputOptions& options, Progress& progress);

}  // namespace grille::engine
