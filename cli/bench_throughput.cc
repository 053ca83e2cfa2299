// grille bench throughput
#include <array>
#include <iostream>
#include <utility>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/model_options.h"
#include "grille/base/parallel.h"
#include "grille/engine/throughput.h"

namespace grille::cli {
namespace {

struct ThroughputCommand {
  ModelOptions model;
  std::string load_format = "auto";
  engine::ThroughputOptions run;
  engine::LocalEngineOptions engine;
};

std::array<std::pair<const char*, double>, 8> named(const engine::StageSeconds& stages) {
  return {{{"prompt_layers", stages.prompt_layers},
           {"prompt_attention", stages.prompt_attention},
           {"decode_layers", stages.decode_layers},
           {"decode_attention", stages.decode_attention},
           {"head", stages.head},
           {"sampling", stages.sampling},
           {"schedule", stages.schedule},
           {"bookkeeping", stages.bookkeeping}}};
}

void print(const engine::ThroughputResult& result) {
  std::cout << fmt::format(
      "{} requests, {} prompt tokens, {} output tokens on {} threads: {:.2f} s\n"
      "  requests/s       {:10.2f}\n"
      "  tokens/s         {:10.1f}  prompt and output\n"
      "  output tokens/s  {:10.1f}\n"
      "  mean batch       {:10.1f}  in {} steps of {:.2f} ms, {} preemptions\n"
      "where the time went           s   share\n",
      result.requests, result.prompt_tokens, result.output_tokens, num_threads(), result.elapsed_seconds,
      result.requests_per_second(), result.tokens_per_second(), result.output_tokens_per_second(),
      result.mean_batch, result.steps, 1e3 * result.elapsed_seconds / static_cast<double>(result.steps),
      result.preemptions);
  for (const auto& [name, seconds] : named(result.stages)) {
    std::cout << fmt::format("  {:18} {:10.3f}  {:5.1f}%\n", name, seconds,
                             100 * seconds / result.elapsed_seconds);
  }
}

nlohmann::json to_json(const engine::ThroughputResult& result) {
  nlohmann::json stages;
  for (const auto& [name, seconds] : named(result.stages)) stages[name] = seconds;
  return {{"elapsed_time", result.elapsed_seconds},
          {"num_requests", result.requests},
          {"total_num_tokens", result.prompt_tokens + result.output_tokens},
          {"requests_per_second", result.requests_per_second()},
          {"tokens_per_second", result.tokens_per_second()},
          {"output_tokens_per_second", result.output_tokens_per_second()},
          {"mean_batch", result.mean_batch},
          {"steps", result.steps},
          {"preemptions", result.preemptions},
          {"stage_seconds", stages}};
}

nlohmann::json run(const ThroughputCommand& command, const CommandContext& context) {
  ModelOptions model = command.model;
  model.dummy = command.load_format == "dummy";
  const LoadedModel loaded = load_model(model, context);
  engine::LocalEngineOptions options = command.engine;
  options.max_positions = command.run.input_len + command.run.output_len;
  engine::ThroughputOptions workload = command.run;
  workload.seed = context.options.seed;
  engine::LocalEngine engine(loaded.decoder, options);
  const engine::ThroughputResult result =
      engine::run_throughput(engine, loaded.decoder.config().vocab_size, workload, context.progress);
  if (!context.options.json) print(result);
  return to_json(result);
}

}  // namespace

void add_bench_throughput(CLI::App& bench) {
  auto options = std::make_shared<ThroughputCommand>();
  CLI::App* command = add_command(
      bench, "throughput", "Requests of random tokens, all at once, through the engine",
      "grille bench throughput model/ --num-prompts 64 --input-len 256 --output-len 256\n"
      "  grille bench throughput folder-with-config-json/ --load-format dummy --json",
      [options](const CommandContext& context) { return run(*options, context); }, RunsOn::kCpu);
  add_model_options(*command, options->model);
  command
      ->add_option("--load-format", options->load_format,
                   "auto, or dummy: random weights, only config.json is read")
      ->check(CLI::IsMember({"auto", "dummy"}))
      ->capture_default_str();
  const auto number = [&](const char* name, std::int64_t& value, const char* description) {
    command->add_option(name, value, description)->check(CLI::Range(1, 1 << 30))->capture_default_str();
  };
  number("--num-prompts", options->run.num_prompts, "Requests");
  number("--input-len", options->run.input_len, "Tokens of a prompt");
  number("--output-len", options->run.output_len, "Tokens to generate; nothing ends a request earlier");
  number("--max-num-seqs", options->engine.max_sequences, "Most requests that run at once");
  number("--max-num-batched-tokens", options->engine.max_batched_tokens,
         "Most tokens of a step; at least --max-num-seqs");
}

}  // namespace grille::cli
