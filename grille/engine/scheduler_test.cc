#include "grille/engine/scheduler.h"

#include <numeric>
#include <optional>

#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::engine {
namespace {

using Counts = std::vector<std::pair<RequestId, std::int64_t>>;

// A scheduler whose steps are done at once: what was scheduled is computed, and a token comes at the end.
class SchedulerTest : public testing::Test {
 protected:
  void start(const SchedulerLimits& limits, std::int64_t num_pages, bool share = false) {
    pages_.emplace(num_pages, share);
    scheduler_.emplace(limits, *pages_);
  }
  Sequence& add(RequestId id, std::int64_t prompt, bool prompt_logprobs = false) {
    Request request;
    request.prompt.resize(static_cast<std::size_t>(prompt));
    std::iota(request.prompt.begin(), request.prompt.end(), 0);
    request.prompt_logprobs = prompt_logprobs;
    auto sequence = std::make_unique<Sequence>(id, std::move(request), 1000);
    Sequence& added = *sequence;
    scheduler_->add(std::move(sequence));
    return added;
  }
  Counts step() {
    Counts counts;
    for (const auto& [sequence, count] : scheduler_->plan()) {
      counts.emplace_back(sequence->id, count);
      sequence->computed += count;
      EXPECT_GE(static_cast<std::int64_t>(sequence->pages.pages.size()), pages_for(sequence->computed));
      pages_->record(sequence->tokens, sequence->computed, sequence->pages);
      if (sequence->pending() == 0) sequence->tokens.push_back(7);
    }
    return counts;
  }

  std::optional<KvPages> pages_;
  std::optional<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, DecodesComeFirstThenPromptsInOrder) {
  start({.max_batched_tokens = 10, .max_sequences = 8}, 100);
  add(1, 4);
  add(2, 12);
  add(3, 5);
  EXPECT_EQ(step(), (Counts{{1, 4}, {2, 6}}));
  EXPECT_EQ(step(), (Counts{{1, 1}, {2, 6}, {3, 3}}));
  EXPECT_EQ(step(), (Counts{{1, 1}, {2, 1}, {3, 2}}));
  EXPECT_EQ(step(), (Counts{{1, 1}, {2, 1}, {3, 1}}));
}

TEST_F(SchedulerTest, SequencesBeyondTheLimitWait) {
  start({.max_batched_tokens = 100, .max_sequences = 2}, 100);
  for (RequestId id = 1; id <= 3; ++id) add(id, 4);
  EXPECT_EQ(step(), (Counts{{1, 4}, {2, 4}}));
  EXPECT_EQ(scheduler_->waiting(), 1);
  EXPECT_TRUE(scheduler_->remove(1));
  EXPECT_FALSE(scheduler_->remove(1));
  EXPECT_EQ(step(), (Counts{{2, 1}, {3, 4}}));
}

TEST_F(SchedulerTest, AdmitsInOrderAndOnlyWithRoomForThoseThatRun) {
  start({.max_batched_tokens = 100, .max_sequences = 8}, 5);
  add(1, 32);
  add(2, 48);  // 3 pages are left, but the first sequence would need one of them at once
  add(3, 4);   // would fit; it came later
  EXPECT_EQ(step(), (Counts{{1, 32}}));
  EXPECT_EQ(step(), (Counts{{1, 1}}));
  EXPECT_EQ(scheduler_->preemptions(), 0);
  scheduler_->remove(1);
  EXPECT_EQ(step(), (Counts{{2, 48}, {3, 4}}));
}

TEST_F(SchedulerTest, TheLatestGivesWayAndIsComputedAgainBeforeThoseThatWait) {
  start({.max_batched_tokens = 100, .max_sequences = 8}, 4);
  Sequence& first = add(1, 16);
  const Sequence& second = add(2, 12);
  EXPECT_EQ(step(), (Counts{{1, 16}, {2, 12}}));
  add(3, 30);
  while (scheduler_->preemptions() == 0) {
    EXPECT_EQ(step().front().first, 1);
    ASSERT_LT(first.length(), 100);
  }
  // All four pages were full: 33 tokens of the first take the third page, and 29 of the second gave up two.
  EXPECT_EQ(first.length(), 34);
  EXPECT_EQ(second.computed, 0);
  EXPECT_TRUE(second.pages.pages.empty());
  const std::int64_t length = second.length();
  EXPECT_EQ(length, 29);
  EXPECT_EQ(scheduler_->running(), 1);
  scheduler_->remove(1);
  EXPECT_EQ(step(), (Counts{{2, length}}));  // with what it generated; the third has no room beside it
  EXPECT_EQ(scheduler_->waiting(), 1);
}

TEST_F(SchedulerTest, ALoneSequenceMayFillTheCache) {
  start({.max_batched_tokens = 16, .max_sequences = 2}, 2);
  const Sequence& only = add(1, 20);
  add(2, 20);
  while (only.length() <= 32) ASSERT_EQ(step().front().first, 1);
  EXPECT_EQ(scheduler_->preemptions(), 0);
}

TEST_F(SchedulerTest, FindsPrefixesUnlessThePromptIsToBeScored) {
  start({.max_batched_tokens = 100, .max_sequences = 8}, 20, /*share=*/true);
  add(1, 40);
  step();
  const Sequence& second = add(2, 40);
  const Sequence& scored = add(3, 40, /*prompt_logprobs=*/true);
  EXPECT_EQ(step(), (Counts{{1, 1}, {2, 8}, {3, 40}}));
  EXPECT_EQ(second.cached_prompt_tokens, 32);
  EXPECT_EQ(scored.cached_prompt_tokens, 0);
  EXPECT_EQ(scheduler_->prefix_queries(), 80);
  EXPECT_EQ(scheduler_->prefix_hits(), 32);
  for (RequestId id = 1; id <= 3; ++id) scheduler_->remove(id);
  EXPECT_EQ(pages_->free_pages(), 20);
}

TEST_F(SchedulerTest, RefusesLimitsThatCannotWork) {
  pages_.emplace(4, false);
  EXPECT_THROW(Scheduler({.max_batched_tokens = 4, .max_sequences = 5}, *pages_), Error);
  EXPECT_THROW(Scheduler({.max_batched_tokens = 4, .max_sequences = 0}, *pages_), Error);
}

}  // namespace
}  // namespace grille::engine
