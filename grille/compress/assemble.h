// From finished parts to the checkpoint that a user gets.
#pragma once

#include <nlohmann/json.hpp>

#include "grille/compress/options.h"
#include "grille/compress/workspace.h"
#include "grille/models/model_files.h"

namespace grille::compress {

// The options as they are recorded in the checkpoint.
nlohmann::json describe(const Options& options);

// Writes model.safetensors (or shards of at most 5 GB and their index), config.json and the side files into
// workspace.partial(). Returns the bytes of the weights' files.
std::int64_t assemble(const models::ModelFiles& files, const Options& options, const Report& report,
                      const Workspace& workspace);

}  // namespace grille::compress
