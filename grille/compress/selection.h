// Which linear layers a run works on.
#pragma once

#include <vector>

#include "grille/compress/options.h"
#include "grille/models/decoder.h"

namespace grille::compress {

// Slots of block `layer` that `prune` selects: matched by a target and by no entry of ignore.
std::vector<models::Slot> pruned_slots(const PruneOptions& prune, std::int64_t layer);

}  // namespace grille::compress
