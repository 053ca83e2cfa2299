// Options of generate and chat.
#pragma once

#include "cli/command.h"
#include "grille/engine/text_generator.h"

namespace grille::cli {

void add_generation_options(CLI::App& command, engine::GenerationOptions& options);

}  // namespace grille::cli
