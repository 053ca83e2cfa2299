#include "grille/base/shared_range.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille {
namespace {

TEST(SharedRange, AnOwnPartIsTakenFromTheFrontAndWhatIsLeftIsNoSmallerThanAPiece) {
  SharedRange range;
  range.reset(25, 1);
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;
  while (const auto piece = range.take(0, 10)) {
    EXPECT_EQ(piece->part_end, 25);
    EXPECT_EQ(piece->follows, piece->begin > 0);
    pieces.emplace_back(piece->begin, piece->end);
  }
  EXPECT_EQ(pieces, (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 10}, {10, 25}}));
}

TEST(SharedRange, WhoIsDoneHelpsFromTheEndOfAnotherPart) {
  SharedRange range;
  range.reset(80, 2);
  ASSERT_EQ(range.take(0, 40)->begin, 0);  // all of part 0
  const auto stolen = range.take(0, 10);
  ASSERT_TRUE(stolen.has_value());
  EXPECT_EQ(stolen->begin, 70);
  EXPECT_EQ(stolen->end, 80);
  EXPECT_EQ(stolen->part_end, 80);
  EXPECT_FALSE(stolen->follows);
  const auto own = range.take(1, 10);
  EXPECT_EQ(own->begin, 40);
  EXPECT_EQ(own->part_end, 80);
  EXPECT_FALSE(own->follows);
  EXPECT_EQ(range.take(1, 10)->begin, 50);
  EXPECT_EQ(range.take(1, 10)->end, 70);
  EXPECT_FALSE(range.take(0, 10).has_value());
  EXPECT_FALSE(range.take(1, 10).has_value());
}

TEST(SharedRange, EachItemIsInOnePieceWhateverTheThreadsDo) {
  SharedRange range;
  for (const std::int64_t parts : {1, 2, 3, 5}) {
    for (const std::int64_t count : {0, 1, 4, 1000, 4001}) {
      for (const std::int64_t size : {1, 7, 5000}) {
        range.reset(count, parts);
        std::vector<std::atomic<int>> taken(static_cast<std::size_t>(count));
        std::vector<std::thread> threads;
        for (std::int64_t part = 0; part < parts; ++part) {
          threads.emplace_back([&, part] {
            while (const auto piece = range.take(part, size)) {
              for (std::int64_t i = piece->begin; i < piece->end; ++i) ++taken[static_cast<std::size_t>(i)];
            }
          });
        }
        for (std::thread& thread : threads) thread.join();
        for (const auto& times : taken) ASSERT_EQ(times.load(), 1);
      }
    }
  }
}

TEST(SharedRange, RefusesWhatItCannotHold) {
  SharedRange range;
  EXPECT_THROW(range.reset(std::int64_t{1} << 32, 1), Error);
  EXPECT_THROW(range.reset(-1, 1), Error);
  EXPECT_THROW(range.reset(10, 0), Error);
  EXPECT_THROW(range.reset(10, SharedRange::kMaxParts + 1), Error);
}

}  // namespace
}  // namespace grille
