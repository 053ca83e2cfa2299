#include "grille/compress/selection.h"

#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::compress {
namespace {

using models::Slot;
using Slots = std::vector<Slot>;

Slots selected(std::vector<std::string> targets, std::vector<std::string> ignore, std::int64_t layer = 1) {
  PruneOptions options;
  options.targets = std::move(targets);
  options.ignore = std::move(ignore);
  return pruned_slots(options, layer);
}

TEST(Selection, ByClassNameFullNameAndPattern) {
  EXPECT_EQ(selected({"Linear"}, {"lm_head"}), Slots(models::kSlots.begin(), models::kSlots.end()));
  EXPECT_EQ(selected({"model.layers.1.self_attn.k_proj"}, {}), Slots{Slot::kKey});
  EXPECT_EQ(selected({"model.layers.1.self_attn.k_proj"}, {}, 2), Slots{});
  EXPECT_EQ(selected({"re:.*mlp.*"}, {}), (Slots{Slot::kGate, Slot::kUp, Slot::kDown}));
  EXPECT_EQ(selected({"re:.*q_proj", "re:.*o_proj"}, {}), (Slots{Slot::kQuery, Slot::kOutput}));
}

TEST(Selection, IgnoreWinsOverTargets) {
  EXPECT_EQ(selected({"Linear"}, {"re:.*self_attn.*", "re:.*down_proj"}), (Slots{Slot::kGate, Slot::kUp}));
  EXPECT_EQ(selected({"Linear"}, {"Linear"}), Slots{});
  EXPECT_EQ(selected({"re:.*layers\\.1\\..*"}, {"re:.*layers\\.1\\..*"}), Slots{});
}

TEST(Selection, AWrongPatternIsAnError) { EXPECT_THROW(selected({"re:(("}, {}), Error); }

}  // namespace
}  // namespace grille::compress
