#include "grille/base/parallel.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille {
namespace {

// Sets the number of threads for one test.
class Parallel : public ::testing::Test {
 protected:
  void TearDown() override { set_num_threads(before_); }
  int before_ = num_threads();
};

std::vector<std::pair<std::int64_t, std::int64_t>> parts_of(std::int64_t count, std::int64_t grain) {
  std::mutex mutex;
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    parts.emplace_back(begin, end);
  });
  std::sort(parts.begin(), parts.end());
  return parts;
}

TEST_F(Parallel, PartsCoverTheRangeOnceAndAreNoSmallerThanTheGrain) {
  for (int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    for (std::int64_t count : {1, 2, 7, 100, 1001}) {
      for (std::int64_t grain : {0, 1, 10, 5000}) {
        const auto parts = parts_of(count, grain);
        ASSERT_LE(parts.size(), static_cast<std::size_t>(threads));
        std::int64_t at = 0;
        for (const auto& [begin, end] : parts) {
          ASSERT_EQ(begin, at);
          ASSERT_GE(end - begin, std::min(grain, count));
          at = end;
        }
        ASSERT_EQ(at, count);
      }
    }
  }
}

TEST_F(Parallel, TheSplitIsTheSameEveryTime) {
  set_num_threads(3);
  const auto first = parts_of(1000, 1);
  EXPECT_EQ(first.size(), 3u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(parts_of(1000, 1), first);
}

TEST_F(Parallel, NothingToDoCallsNothing) {
  EXPECT_TRUE(parts_of(0, 1).empty());
  EXPECT_TRUE(parts_of(-5, 1).empty());
}

TEST_F(Parallel, AnExceptionOfAThreadReachesTheCaller) {
  set_num_threads(4);
  const auto loop = [] {
    parallel_for(4, 1, [](std::int64_t begin, std::int64_t) {
      check(begin != 2, ErrorCode::kCorruptData, "part {}", begin);
    });
  };
  try {
    loop();
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "part 2");
  }
}

TEST_F(Parallel, ALoopInsideALoopRunsSerially) {
  set_num_threads(2);
  std::vector<int> calls(2, 0);
  parallel_for(2, 1, [&](std::int64_t begin, std::int64_t) {
    parallel_for(100, 1, [&](std::int64_t, std::int64_t) { ++calls[static_cast<std::size_t>(begin)]; });
  });
  EXPECT_EQ(calls, (std::vector<int>{1, 1}));
}

TEST_F(Parallel, RefusesFewerThanOneThread) { EXPECT_THROW(set_num_threads(0), Error); }

}  // namespace
}  // namespace grille
