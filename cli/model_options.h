// Options of the commands that run a model.
#pragma once

#include <memory>
#include <string>

#include "cli/command.h"
#include "grille/models/load.h"

namespace grille::cli {

struct ModelOptions {
  std::string model;
  std::string activations = "auto";
  bool dummy = false;  // random weights from the model's config.json
};

// Adds MODEL and --activations.
void add_model_options(CLI::App& command, ModelOptions& options);

struct LoadedModel {
  models::ModelFiles files;
  models::Decoder decoder;
};

LoadedModel load_model(const ModelOptions& options, const CommandContext& context);

}  // namespace grille::cli
