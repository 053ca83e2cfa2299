#include "grille/engine/page_allocator.h"

#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::engine {
namespace {

TEST(PageAllocator, HandsOutEveryPageOnce) {
  PageAllocator pages(3);
  EXPECT_EQ(pages.allocate(), 0);
  EXPECT_EQ(pages.allocate(), 1);
  pages.release(0);
  EXPECT_THROW(pages.release(0), Error);
  EXPECT_EQ(pages.allocate(), 0);
  EXPECT_EQ(pages.allocate(), 2);
  EXPECT_EQ(pages.allocate(), std::nullopt);
  EXPECT_EQ(pages.free_pages(), 0);
}

TEST(PageAllocator, APageIsFreeWhenItsLastUserIsGone) {
  PageAllocator pages(1);
  EXPECT_EQ(pages.allocate(), 0);
  pages.share(0);
  pages.release(0);
  EXPECT_EQ(pages.free_pages(), 0);
  pages.release(0);
  EXPECT_EQ(pages.free_pages(), 1);
  pages.share(0);  // used again, without being handed out
  EXPECT_EQ(pages.allocate(), std::nullopt);
}

TEST(PageAllocator, WantedPagesGoLastAndTheOldestOfThemFirst) {
  PageAllocator pages(5);
  for (int i = 0; i < 4; ++i) pages.allocate();
  pages.release(2, /*wanted=*/true);
  pages.release(1, /*wanted=*/true);
  pages.release(3);
  EXPECT_EQ(pages.free_pages(), 4);
  for (const std::int32_t expected : {3, 4, 2, 1}) EXPECT_EQ(pages.allocate(), expected);
}

TEST(PageAllocator, RefusesImpossibleSizes) {
  EXPECT_THROW(PageAllocator(0), Error);
  EXPECT_THROW(PageAllocator(std::int64_t{1} << 31), Error);
}

}  // namespace
}  // namespace grille::engine
