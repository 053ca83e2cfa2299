#include "grille/compress/selection.h"

#include "grille/checkpoint/compressed_tensors.h"

namespace grille::compress {

std::vector<models::Slot> pruned_slots(const PruneOptions& prune, std::int64_t layer) {
  std::vector<models::Slot> slots;
  for (const models::Slot slot : models::kSlots) {
    const std::string module = models::module_name(layer, slot);
    if (checkpoint::matches_any(prune.targets, module, "Linear") && !checkpoint::matches_any(prune.ignore, module, "Linear")) {
      slots.push_back(slot);
    }
  }
  return slots;
}

}  // namespace grille::compress
