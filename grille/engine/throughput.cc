#include "grille/engine/throughput.h"

#include <chrono>
#include <random>
#include <utility>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"

namespace grille::engine {
namespace {

Request random_request(std::mt19937_64& random, std::int64_t vocab_size, const ThroughputOptions& options) {
  Request request;
  for (std::int64_t i = 0; i < options.input_len; ++i) {
    request.prompt.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab_size)));
  }
  request.max_tokens = options.output_len;
  request.sampling.temperature = options.temperature;
  request.sampling.seed = random();
  return request;
}

}  // namespace

ThroughputResult run_throughput(LocalEngine& engine, std::int64_t vocab_size,
                                const ThroughputOptions& options, Progress& progress) {
  for (const auto& [name, value] :
       {std::pair{"num-prompts", options.num_prompts}, std::pair{"input-len", options.input_len},
        std::pair{"output-len", options.output_len}}) {
    check(value >= 1, ErrorCode::kInvalidArgument, "--{} {}: expected at least 1", name, value);
  }
  check(options.input_len <= engine.max_positions() - options.output_len, ErrorCode::kInvalidArgument,
        "--input-len {} and --output-len {}: the context is {}", options.input_len, options.output_len,
        engine.max_positions());
  std::mt19937_64 random(options.seed);
  std::vector<Request> requests;
  for (std::int64_t i = 0; i < options.num_prompts; ++i) {
    requests.push_back(random_request(random, vocab_size, options));
  }
  ThroughputResult result;
  result.requests = options.num_prompts;
  result.prompt_tokens = options.num_prompts * options.input_len;
  std::int64_t steps_with_tokens = 0;
  progress.start("generating", options.num_prompts * options.output_len, "tokens");
  const auto begin = std::chrono::steady_clock::now();
  for (Request& request : requests) engine.submit(std::move(request));
  while (!engine.idle()) {
    throw_if_interrupted();
    const std::vector<TokenEvent> events = engine.step();
    for (const TokenEvent& event : events) {
      if (event.error) throw Error(*event.error);
    }
    steps_with_tokens += events.empty() ? 0 : 1;
    result.output_tokens += static_cast<std::int64_t>(events.size());
    progress.update(result.output_tokens);
  }
  result.elapsed_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  progress.finish();
  result.steps = engine.stats().steps;
  result.preemptions = engine.stats().preemptions;
  result.mean_batch = static_cast<double>(result.output_tokens) / static_cast<double>(steps_with_tokens);
  result.stages = engine.stage_seconds();
  return result;
}

}  // namespace grille::engine
