// From finished parts to the checkpoint that a user gets.
#pragma once

#include "grille/compress/options.h"
#include "grille/compress/workspace.h"
#include "grille/models/model_files.h"

namespace grille::compress {

// Writes model.safetensors (or shards of at most 5 GB and their index), config.json and the side files into
// workspace.partial(). Returns the bytes of the weights' files.
std::int64_t assemble(const models::ModelFiles& files, const Options& options, const Report& report,
                      const Workspace& workspace);

}  // namespace grille::compress
