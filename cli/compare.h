// The table of `grille prune --compare`.
#pragma once

#include <vector>

#include "cli/command.h"
#include "grille/compress/compare.h"

namespace grille::cli {

// Prints the table unless --json is given; returns {"models": [...]}.
nlohmann::json report_comparison(const std::vector<compress::ComparedModel>& models,
                                 const CommandContext& context);

}  // namespace grille::cli
