#include "grille/evaluate/passages.h"

#include <map>
#include <numeric>
#include <random>

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/models/tiny_decoder.h"
#include "grille/nn/attention.h"

namespace grille::evaluate {
namespace {

using Ids = std::vector<std::int32_t>;

class Passages : public testing::Test {
 protected:
  Ids random_ids(std::int64_t count) {
    Ids ids(static_cast<std::size_t>(count));
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random_() % 50);
    return ids;
  }
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }
  // Runs the passages; each prediction is compared with that of a run over just the passage's own tokens.
  void expect_predictions_of_whole_runs(const std::vector<Passage>& passages) {
    std::vector<std::vector<std::vector<float>>> seen(passages.size());
    for (std::size_t i = 0; i < passages.size(); ++i) seen[i].resize(passages[i].ids.size());
    std::int64_t done = 0;
    for_each_prediction(
        model_, passages,
        [&](std::size_t passage, std::int64_t position, std::span<const float> logits) {
          auto& slot = seen[passage][static_cast<std::size_t>(position)];
          EXPECT_TRUE(slot.empty()) << "twice";
          slot.assign(logits.begin(), logits.end());
        },
        [&](std::int64_t count) {
          EXPECT_GE(count, done);
          done = count;
        });
    EXPECT_EQ(done, static_cast<std::int64_t>(passages.size()));
    for (std::size_t i = 0; i < passages.size(); ++i) {
      const Ids& ids = passages[i].ids;
      std::vector<std::int64_t> positions(ids.size());
      std::iota(positions.begin(), positions.end(), 0);
      nn::SegmentAttention attention({static_cast<std::int64_t>(ids.size())});
      const at::Tensor expected = model_.logits(model_.forward(ids, positions, attention));
      for (std::size_t at = 0; at < ids.size(); ++at) {
        if (static_cast<std::int64_t>(at) < passages[i].first) {
          EXPECT_TRUE(seen[i][at].empty());
          continue;
        }
        ASSERT_EQ(seen[i][at].size(), 50u) << i << " " << at;
        const float* row = expected.const_data_ptr<float>() + at * 50;
        // Logits of magnitude up to 32 in fp32, each the end of some hundred roundings whose order differs
        // with the number of tokens run at once.
        for (std::size_t j = 0; j < 50; ++j)
          ASSERT_NEAR(seen[i][at][j], row[j], 32 * 200 * 0x1p-24) << i << " " << at;
      }
    }
  }

  const c10::InferenceMode inference_;
  const models::Decoder model_ = models::tiny_decoder(300);
  std::mt19937 random_{1};
};

TEST_F(Passages, ThatBeginAlikeArePredictedAsIfAlone) {
  for (const std::int64_t shared : {0, 1, 15, 16, 17, 47, 100}) {
    const Ids prefix = random_ids(shared);
    std::vector<Passage> passages;
    for (int i = 0; i < 60; ++i) {
      Passage passage{prefix, 0};
      const Ids rest = random_ids(1 + below(60));
      passage.ids.insert(passage.ids.end(), rest.begin(), rest.end());
      passage.first = below(static_cast<std::int64_t>(passage.ids.size()));
      passages.push_back(passage);
    }
    expect_predictions_of_whole_runs(passages);
  }
}

TEST_F(Passages, ShareWhatTheyHaveInCommonAtAnyDepth) {
  std::vector<Passage> passages;
  for (int i = 0; i < 200; ++i) {
    Passage passage;
    if (i > 0) {  // some prefix of an earlier passage, or all of it
      const Ids& earlier = passages[static_cast<std::size_t>(below(i))].ids;
      passage.ids.assign(earlier.begin(),
                         earlier.begin() + below(static_cast<std::int64_t>(earlier.size()) + 1));
    }
    const std::int64_t room = 300 - static_cast<std::int64_t>(passage.ids.size());
    const Ids rest = random_ids(room == 300 ? 1 + below(299) : below(std::min<std::int64_t>(room, 80)));
    passage.ids.insert(passage.ids.end(), rest.begin(), rest.end());
    passage.first = static_cast<std::int64_t>(passage.ids.size()) - 1 -
                    below(std::min<std::int64_t>(3, static_cast<std::int64_t>(passage.ids.size())));
    passages.push_back(passage);
  }
  expect_predictions_of_whole_runs(passages);
}

TEST_F(Passages, LongOnesWithNothingInCommonTakeABatchEach) {
  std::vector<Passage> passages(12);
  for (Passage& passage : passages) passage = {random_ids(300), 298};
  expect_predictions_of_whole_runs(passages);
}

TEST_F(Passages, RefusesWhatTheModelCannotRun) {
  const auto refused = [&](const Passage& passage) {
    EXPECT_THROW(for_each_prediction(model_, std::vector<Passage>{passage}, [](auto, auto, auto) {}), Error);
  };
  refused({{}, 0});
  refused({random_ids(301), 0});
  refused({random_ids(4), 4});
  refused({random_ids(4), -1});
  refused({{1, 50}, 0});
}

TEST_F(Passages, WhatTheReaderThrowsComesOut) {
  const std::vector<Passage> passages = {{random_ids(5), 0}};
  EXPECT_THROW(for_each_prediction(model_, passages,
                                   [](auto, auto, auto) { fail(ErrorCode::kCorruptData, "logits"); }),
               Error);
}

}  // namespace
}  // namespace grille::evaluate
