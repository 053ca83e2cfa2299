#include "grille/engine/prefix_cache.h"

#include <numeric>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/engine/kv_pages.h"

namespace grille::engine {
namespace {

std::vector<std::int32_t> tokens_from(std::int32_t first, std::size_t count = 16) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(PrefixCache, FindsATokenPageOnlyAfterItsOwnPrefix) {
  PrefixCache cache(4);
  const auto a = cache.insert(PrefixCache::kNoTokens, tokens_from(0), 2);
  const auto b = cache.insert(a, tokens_from(100), 3);
  EXPECT_NE(a, b);
  EXPECT_EQ(cache.find(PrefixCache::kNoTokens, tokens_from(0))->page, 2);
  EXPECT_EQ(cache.find(a, tokens_from(100))->page, 3);
  EXPECT_FALSE(cache.find(PrefixCache::kNoTokens, tokens_from(100)));
  EXPECT_FALSE(cache.find(b, tokens_from(100)));
  EXPECT_FALSE(cache.find(a, tokens_from(101)));
  EXPECT_THROW(cache.find(a, tokens_from(0, 15)), Error);
}

TEST(PrefixCache, EqualHashesAreNoHit) {
  PrefixCache cache(4, [](PrefixCache::Block, const PrefixCache::Tokens&) -> std::size_t { return 7; });
  const auto a = cache.insert(PrefixCache::kNoTokens, tokens_from(0), 0);
  cache.insert(PrefixCache::kNoTokens, tokens_from(1), 1);
  cache.insert(a, tokens_from(0), 2);
  EXPECT_EQ(cache.find(PrefixCache::kNoTokens, tokens_from(0))->page, 0);
  EXPECT_EQ(cache.find(PrefixCache::kNoTokens, tokens_from(1))->page, 1);
  EXPECT_EQ(cache.find(a, tokens_from(0))->page, 2);
  EXPECT_FALSE(cache.find(PrefixCache::kNoTokens, tokens_from(2)));
  EXPECT_FALSE(cache.find(a, tokens_from(1)));
}

TEST(PrefixCache, TheFirstPageOfEqualOnesStays) {
  PrefixCache cache(2);
  const auto a = cache.insert(PrefixCache::kNoTokens, tokens_from(0), 0);
  EXPECT_EQ(cache.insert(PrefixCache::kNoTokens, tokens_from(0), 1), a);
  EXPECT_FALSE(cache.holds(1));
  cache.forget(1);
  EXPECT_EQ(cache.find(PrefixCache::kNoTokens, tokens_from(0))->page, 0);
}

TEST(PrefixCache, AForgottenPageTakesWhatFollowedItAlong) {
  PrefixCache cache(3);
  const auto a = cache.insert(PrefixCache::kNoTokens, tokens_from(0), 0);
  cache.insert(a, tokens_from(16), 1);
  cache.forget(0);
  EXPECT_FALSE(cache.holds(0));
  EXPECT_FALSE(cache.find(PrefixCache::kNoTokens, tokens_from(0)));
  const auto again = cache.insert(PrefixCache::kNoTokens, tokens_from(0), 2);
  EXPECT_NE(again, a);  // what it held may have been something else in between
  EXPECT_FALSE(cache.find(again, tokens_from(16)));
}

TEST(KvPages, SharesWholePagesAndLeavesTheLastTokenToCompute) {
  KvPages pages(8, true);
  const auto tokens = tokens_from(0, 48);
  PageList first;
  EXPECT_EQ(pages.find_prefix(tokens, first), 0);
  ASSERT_TRUE(pages.grow(first, 48));
  pages.record(tokens, 47, first);  // the third page is not full yet
  PageList second;
  EXPECT_EQ(pages.find_prefix(tokens, second), 32);
  EXPECT_EQ(second.pages, std::vector<std::int32_t>(first.pages.begin(), first.pages.begin() + 2));
  pages.release(second);
  pages.record(tokens, 48, first);
  EXPECT_EQ(pages.find_prefix(tokens, second), 32);  // all 48 are there, but one is to be computed
  pages.release(second);
  EXPECT_EQ(pages.find_prefix(tokens_from(0, 49), second), 48);
  EXPECT_EQ(pages.free_pages(), 5);
  pages.release(first);
  EXPECT_EQ(pages.free_pages(), 5);
  pages.release(second);
  EXPECT_EQ(pages.free_pages(), 8);
}

TEST(KvPages, TheEndOfTheLeastRecentlyUsedPrefixGoesFirst) {
  KvPages pages(4, true);
  PageList list;
  for (const std::int32_t first : {0, 100}) {
    pages.grow(list, 32);
    pages.record(tokens_from(first, 32), 32, list);
    pages.release(list);
  }
  PageList other;
  EXPECT_TRUE(pages.grow(other, 16));
  EXPECT_EQ(pages.find_prefix(tokens_from(0, 33), list), 16);
  pages.release(list);
  EXPECT_EQ(pages.find_prefix(tokens_from(100, 33), list), 32);
  EXPECT_TRUE(pages.grow(other, 32));
  EXPECT_FALSE(pages.grow(other, 48));  // the rest is in use
  EXPECT_EQ(other.pages.size(), 2u);
  pages.release(list);
  EXPECT_TRUE(pages.grow(other, 48));
  EXPECT_FALSE(pages.grow(other, 64, /*spare=*/1));
  EXPECT_EQ(pages.find_prefix(tokens_from(0, 33), list), 0);
  EXPECT_EQ(pages.find_prefix(tokens_from(100, 33), list), 16);
}

TEST(KvPages, FindsNothingWhereSharingIsOff) {
  KvPages pages(4, false);
  PageList list;
  pages.grow(list, 32);
  pages.record(tokens_from(0, 32), 32, list);
  pages.release(list);
  EXPECT_EQ(pages.find_prefix(tokens_from(0, 33), list), 0);
}

}  // namespace
}  // namespace grille::engine
