#include "grille/prune/pattern.h"

#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::prune {
namespace {

TEST(Pattern, ReadsKeepOfGroup) {
  const Pattern pattern = parse_pattern("2:4", std::nullopt);
  EXPECT_TRUE(pattern.is_two_four());
  EXPECT_DOUBLE_EQ(pattern.sparsity, 0.5);
  EXPECT_EQ(parse_pattern("1:4", std::nullopt).sparsity, 0.75);
  EXPECT_EQ(parse_pattern("4:8", 0.5).name(), "4:8");
  EXPECT_FALSE(parse_pattern("4:8", 0.5).is_two_four());
}

TEST(Pattern, UnstructuredTakesTheSparsity) {
  EXPECT_EQ(parse_pattern("unstructured", 0.7).sparsity, 0.7);
  EXPECT_EQ(parse_pattern("unstructured", std::nullopt).sparsity, 0.5);
}

TEST(Pattern, RefusesWhatItCannotDo) {
  for (const char* text : {"", "2", ":", "2:", "0:4", "4:4", "5:4", "2:64", "2:4x", "-1:4", "block:32x32"}) {
    EXPECT_THROW(parse_pattern(text, std::nullopt), Error) << text;
  }
  EXPECT_THROW(parse_pattern("2:4", 0.6), Error);
  EXPECT_THROW(parse_pattern("unstructured", 1.0), Error);
  EXPECT_THROW(parse_pattern("unstructured", 0.0), Error);
}

}  // namespace
}  // namespace grille::prune
