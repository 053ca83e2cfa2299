#include "cli/generation_options.h"

namespace grille::cli {

void add_generation_options(CLI::App& command, engine::GenerationOptions& options) {
  command.add_option("--max-tokens", options.max_tokens, "Most tokens to generate")->capture_default_str();
  command.add_option("--temperature", options.sampling.temperature, "0: greedy; higher: more varied")
      ->capture_default_str();
  command.add_option("--top-k", options.sampling.top_k, "Sample from the k most probable tokens; 0: all")
      ->capture_default_str();
  command
      .add_option("--top-p", options.sampling.top_p, "Sample from the tokens that make up this probability")
      ->capture_default_str();
  command
      .add_option("--min-p", options.sampling.min_p,
                  "Drop tokens below this share of the best one's probability")
      ->capture_default_str();
  command
      .add_option("--repetition-penalty", options.sampling.repetition_penalty,
                  "Above 1: tokens that came before become less likely")
      ->capture_default_str();
  command.add_option("--stop", options.stop, "Text that ends the generation (may be given several times)")
      ->take_all()
      ->allow_extra_args(false);
}

}  // namespace grille::cli
