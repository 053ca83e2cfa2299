#include "grille/compress/selection.h"

#include "grille/checkpoint/module_targets.h"

namespace grille::compress {

std::vector<models::Slot> pruned_slots(const PruneOptions& prune, std::int64_t layer) {
  const checkpoint::ModuleTargets targets(prune.targets);
  const checkpoint::ModuleTargets ignore(prune.ignore);
  std::vector<models::Slot> slots;
  for (const models::Slot slot : models::kSlots) {
    const std::string module = models::module_name(layer, slot);
    if (targets.matches(module, "Linear") && !ignore.matches(module, "Linear")) slots.push_back(slot);
  }
  return slots;
}

std::int64_t last_pruned_block(const PruneOptions& prune, std::int64_t layers) {
  std::int64_t last = layers - 1;
  while (last >= 0 && pruned_slots(prune, last).empty()) --last;
  return last;
}

}  // namespace grille::compress
