#include "cli/model_options.h"

#include <spdlog/spdlog.h>

#include "grille/models/load_notes.h"

namespace grille::cli {

void add_model_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("MODEL", options.model,
                  "A Hugging Face directory, a GGUF file, or a hub id in the local cache")
      ->required();
  command
      .add_option("--activations", options.activations,
                  "What FP8 and int8 weights multiply: quantized (as GPUs do; auto), or full")
      ->check(CLI::IsMember({"auto", "full", "quantized"}));
}

LoadedModel load_model(const ModelOptions& options, const CommandContext& context) {
  models::ModelFiles files = options.dummy ? models::open_dummy_model(options.model, context.options.seed)
                                           : models::open_model(options.model);
  models::LoadOptions load;
  load.compute_dtype = context.options.compute_dtype();
  load.round_activations = options.activations != "full";
  load.device = context.device;
  models::Decoder decoder = models::load_decoder(files, load, context.progress);
  for (const std::string& note : models::load_notes(files, decoder)) spdlog::info("{}", note);
  return {std::move(files), std::move(decoder)};
}

}  // namespace grille::cli
