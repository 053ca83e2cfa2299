#include "grille/engine/local_engine.h"

#include <algorithm>
#include <numeric>

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/models/tiny_decoder.h"
#include "grille/nn/attention.h"

namespace grille::engine {
namespace {

std::int32_t greedy_next(const models::Decoder& model, const std::vector<std::int32_t>& ids) {
  std::vector<std::int64_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  nn::SegmentAttention attention({static_cast<std::int64_t>(ids.size())});
  const at::Tensor hidden = model.forward(ids, positions, attention);
  return static_cast<std::int32_t>(
      model.logits(hidden.narrow(0, hidden.size(0) - 1, 1)).argmax().item<std::int64_t>());
}

std::vector<TokenEvent> run(Engine& engine) {
  std::vector<TokenEvent> events;
  while (!engine.idle()) {
    for (const TokenEvent& event : engine.step()) events.push_back(event);
  }
  return events;
}

class LocalEngineTest : public testing::Test {
 protected:
  const c10::InferenceMode inference_;
  const models::Decoder model_ = models::tiny_decoder();
};

TEST_F(LocalEngineTest, CachedDecodingEqualsRunningTheWholeSequence) {
  std::vector<std::int32_t> tokens = {3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 3, 2, 38, 46, 26, 43, 38, 32};
  for (const std::int64_t chunk : {1, 5, 512}) {
    LocalEngine engine(model_, {0, chunk});
    engine.submit({tokens, 20, {}, {}});
    std::vector<std::int32_t> sequence = tokens;
    for (const TokenEvent& event : run(engine)) {
      ASSERT_EQ(event.token, greedy_next(model_, sequence)) << "chunk " << chunk;
      sequence.push_back(event.token);
    }
    EXPECT_EQ(sequence.size(), tokens.size() + 20);
  }
}

TEST_F(LocalEngineTest, EndsAtAStopTokenAtTheLimitAndAtTheContext) {
  const std::int32_t first = greedy_next(model_, {1, 2, 3});
  LocalEngine engine(model_, {8, 512});
  engine.submit({{1, 2, 3}, 5, {first}, {}});
  auto events = run(engine);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events.back().finish, FinishReason::kStop);
  engine.submit({{1, 2, 3}, 2, {}, {}});
  events = run(engine);
  EXPECT_EQ(events.size(), 2u);
  EXPECT_EQ(events.back().finish, FinishReason::kLength);
  engine.submit({{1, 2, 3}, 100, {}, {}});  // positions 3 to 7 are free
  events = run(engine);
  EXPECT_EQ(events.size(), 5u);
  EXPECT_EQ(events.back().finish, FinishReason::kLength);
}

TEST_F(LocalEngineTest, ServesRequestsInOrderAndForgetsAbortedOnes) {
  LocalEngine engine(model_, {16, 512});
  const RequestId a = engine.submit({{1, 2}, 3, {}, {}});
  const RequestId b = engine.submit({{4, 5}, 3, {}, {}});
  const RequestId c = engine.submit({{6, 7}, 3, {}, {}});
  engine.step();
  engine.abort(a);
  engine.abort(b);
  engine.abort(b);
  std::vector<RequestId> served;
  for (const TokenEvent& event : run(engine)) served.push_back(event.request);
  EXPECT_EQ(served, (std::vector<RequestId>{c, c, c}));
  // One page was all there is: it came back each time.
  for (int i = 0; i < 5; ++i) {
    engine.submit({{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 4, {}, {}});
    EXPECT_EQ(run(engine).size(), 4u);
  }
}

TEST_F(LocalEngineTest, RefusesRequestsThatCannotRun) {
  LocalEngine engine(model_, {8, 512});
  EXPECT_THROW(engine.submit({{}, 3, {}, {}}), Error);
  EXPECT_THROW(engine.submit({{50}, 3, {}, {}}), Error);
  EXPECT_THROW(engine.submit({{-1}, 3, {}, {}}), Error);
  EXPECT_THROW(engine.submit({{1}, 0, {}, {}}), Error);
  EXPECT_THROW(engine.submit({{1, 2, 3, 4, 5, 6, 7, 8}, 1, {}, {}}), Error);
  EXPECT_TRUE(engine.idle());
}

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

}  // namespace
}  // namespace grille::engine
