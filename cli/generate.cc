// grille generate: one prompt, one continuation.
#include <iostream>

#include "cli/generation_options.h"
#include "cli/model_options.h"
#include "grille/base/error.h"
#include "grille/engine/local_engine.h"

namespace grille::cli {
namespace {

struct GenerateOptions {
  ModelOptions model;
  engine::GenerationOptions generation;
  std::string prompt;
  bool chat = false;
};

double rate(double count, double seconds) { return seconds > 0 ? count / seconds : 0.0; }

nlohmann::json run(const GenerateOptions& options, const CommandContext& context) {
  engine::check_sampling(options.generation.sampling);
  const LoadedModel loaded = load_model(options.model, context);
  const text::Tokenizer tokenizer = models::load_tokenizer(loaded.files);
  const std::vector<std::int32_t> prompt =
      options.chat ? engine::encode_chat(tokenizer, {{{"role", "user"}, {"content", options.prompt}}})
                   : engine::encode_prompt(tokenizer, options.prompt);

  engine::GenerationOptions generation = options.generation;
  generation.sampling.seed = context.options.seed;
  engine::LocalEngineOptions engine_options;
  engine_options.max_positions = static_cast<std::int64_t>(prompt.size()) + generation.max_tokens;
  engine_options.max_sequences = 1;
  engine::LocalEngine engine(loaded.decoder, engine_options);

  const bool show = !context.options.json;
  const engine::Generation result =
      engine::generate(engine, tokenizer, prompt, generation, [&](std::string_view piece) {
        if (show) std::cout << piece << std::flush;
      });
  if (show) std::cout << "\n";
  const double decoded = static_cast<double>(result.token_ids.size()) - 1;
  return {
      {"text", result.text},
      {"token_ids", result.token_ids},
      {"finish_reason", result.finish_reason},
      {"prompt_tokens", result.prompt_tokens},
      {"prompt_tokens_per_second", rate(static_cast<double>(result.prompt_tokens), result.prompt_seconds)},
      {"tokens_per_second", rate(decoded, result.decode_seconds)}};
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = add_command(
      app, "generate", "Continue a prompt",
      "grille generate model/ --prompt 'The capital of France is' --max-tokens 32",
      [options](const CommandContext& context) { return run(*options, context); }, RunsOn::kCpu);
  add_model_options(*command, options->model);
  command->add_option("--prompt", options->prompt, "The text to continue")->required();
  command->add_flag("--chat", options->chat,
                    "Put the prompt into the model's chat template, as a user's message");
  add_generation_options(*command, options->generation);
}

}  // namespace grille::cli
