// Which linear layers a run works on.
#pragma once

#include <cstdint>
#include <vector>

#include "grille/compress/options.h"
#include "grille/models/decoder.h"

namespace grille::compress {

// Slots of block `layer` that `prune` selects: matched by a target and by no entry of ignore.
std::vector<models::Slot> pruned_slots(const PruneOptions& prune, std::int64_t layer);

// The last of `layers` blocks in which `prune` selects anything, or -1: calibration ends there.
std::int64_t last_pruned_block(const PruneOptions& prune, std::int64_t layers);

}  // namespace grille::compress
