#include <gtest/gtest.h>

#include "grille/engine/text_generator.h"

namespace grille::engine {
namespace {

TEST(StopMatcher, HoldsBackWhatCouldBecomeAStop) {
  StopMatcher matcher({"END", "\n\n"});
  EXPECT_EQ(matcher.push("one E"), "one ");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_EQ(matcher.push("V\n"), "ENV");
  EXPECT_EQ(matcher.flush(), "\n");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, EndsAtTheEarliestStop) {
  StopMatcher matcher({"later", "stop"});
  EXPECT_EQ(matcher.push("a stop and later"), "a ");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, FindsAStopSplitOverPieces) {
  StopMatcher matcher({"abab"});
  std::string shown;
  for (const char* piece : {"x", "a", "b", "a", "c", "ab", "a", "b", "tail"}) shown += matcher.push(piece);
  EXPECT_EQ(shown, "xabac");
  EXPECT_TRUE(matcher.stopped());
}

}  // namespace
}  // namespace grille::engine
