// grille chat: a conversation on the terminal.
#include <iostream>

#include "cli/generation_options.h"
#include "cli/model_options.h"
#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/engine/local_engine.h"

namespace grille::cli {
namespace {

struct ChatOptions {
  ModelOptions model;
  engine::GenerationOptions generation;
  std::string system;
};

// Reads one line; false at the end of the input.
bool read_message(std::string& message) {
  std::cout << "> " << std::flush;
  return static_cast<bool>(std::getline(std::cin, message)) && message != "/exit";
}

nlohmann::json run(const ChatOptions& options, const CommandContext& context) {
  check(!context.options.json, ErrorCode::kInvalidArgument,
        "--json: a chat has no single result; use 'grille generate --chat'");
  engine::check_sampling(options.generation.sampling);
  const LoadedModel loaded = load_model(options.model, context);
  const text::Tokenizer tokenizer = models::load_tokenizer(loaded.files);
  engine::LocalEngineOptions engine_options;
  engine_options.max_sequences = 1;
  engine::LocalEngine engine(loaded.decoder, engine_options);
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});

  engine::GenerationOptions generation = options.generation;
  generation.sampling.seed = context.options.seed;
  std::int64_t turns = 0;
  if (!context.options.quiet) std::cerr << "Type a message; /exit or Ctrl-D ends the chat.\n";
  for (std::string message; read_message(message);) {
    if (message.empty()) continue;
    messages.push_back({{"role", "user"}, {"content", message}});
    const std::vector<std::int32_t> prompt = engine::encode_chat(tokenizer, messages);
    const engine::Generation reply =
        engine::generate(engine, tokenizer, prompt, generation,
                         [](std::string_view piece) { std::cout << piece << std::flush; });
    std::cout << "\n";
    messages.push_back({{"role", "assistant"}, {"content", reply.text}});
    ++turns;
  }
  throw_if_interrupted();
  std::cout << "\n";
  return {{"turns", turns}};
}

}  // namespace

void add_chat(CLI::App& app) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* command = add_command(
      app, "chat", "Talk with a model", "grille chat model/ --temperature 0.7",
      [options](const CommandContext& context) { return run(*options, context); }, RunsOn::kCpu);
  add_model_options(*command, options->model);
  command->add_option("--system", options->system, "A system message, before the conversation");
  add_generation_options(*command, options->generation);
}

}  // namespace grille::cli
