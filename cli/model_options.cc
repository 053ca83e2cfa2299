#include "cli/model_options.h"

namespace grille::cli {

void add_model_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("MODEL", options.model,
                  "A Hugging Face directory, a GGUF file, or a hub id in the local cache")
      ->required();
  command
      .add_option("--activations", options.activations,
                  "What FP8 weights multiply: quantized (as FP8 hardware does; auto), or full")
      ->check(CLI::IsMember({"auto", "full", "quantized"}));
}

LoadedModel load_model(const ModelOptions& options, const CommandContext& context) {
  models::ModelFiles files = models::open_model(options.model);
  models::LoadOptions load;
  load.compute_dtype = context.options.compute_dtype();
  load.activations = options.activations == "full" ? nn::Activations::kFull : nn::Activations::kQuantized;
  models::Decoder decoder = models::load_decoder(files, load, context.progress);
  return {std::move(files), std::move(decoder)};
}

}  // namespace grille::cli
