#include "grille/compress/compare.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "grille/checkpoint/scratch_directory.h"
#include "grille/compress/tiny_model.h"

namespace grille::compress {
namespace {

using checkpoint::error_of;
using checkpoint::expect_contains;

TEST(Candidates, NameAMethodAndWhatFollowsIt) {
  PruneOptions base;
  base.damping = 0.5;
  base.refine = Refine::kMask;
  const Candidate plain = parse_candidate("ria", base);
  EXPECT_EQ(plain.prune.method, Method::kRia);
  EXPECT_EQ(plain.prune.refine, Refine::kNone);
  EXPECT_FALSE(plain.prune.reconstruct.has_value());
  EXPECT_EQ(plain.prune.damping, 0.5);
  base.reconstruct = ReconstructOptions{.epochs = 3, .rate = 0.5};
  const Candidate whole = parse_candidate("alps+block+weights", base);
  EXPECT_EQ(whole.name, "alps+block+weights");
  EXPECT_EQ(whole.prune.method, Method::kAlps);
  EXPECT_EQ(whole.prune.refine, Refine::kWeights);
  EXPECT_EQ(whole.prune.reconstruct->epochs, 3);
  for (const char* bad : {"", "wand", "wanda+", "wanda+all", "+mask", "wanda+mask+weights"})
    expect_contains(error_of([&] { parse_candidate(bad, base); }), bad);
}

TEST(SplitCalibration, HoldsOutEveryEighthWindow) {
  std::vector<text::CalibrationWindow> windows(17);
  for (std::size_t i = 0; i < windows.size(); ++i) windows[i].ids = {static_cast<std::int32_t>(i)};
  const SplitCalibration split = split_calibration(windows);
  ASSERT_EQ(split.held_out.size(), 2u);
  EXPECT_EQ(split.held_out[1].ids[0], 15);
  EXPECT_EQ(split.pruning.size(), 15u);
  windows.resize(1);
  expect_contains(error_of([&] { split_calibration(windows); }), "--samples");
}

TEST(Compare, MeasuresTheDenseModelAndEveryCandidate) {
  const c10::InferenceMode inference;
  const checkpoint::ScratchDirectory scratch;
  const TinyModel model;
  const std::vector<std::int32_t> text = tiny_calibration(11)[0].ids;
  const SplitCalibration calibration = split_calibration(tiny_calibration());
  const auto candidates = [](std::initializer_list<const char*> names) {
    std::vector<Candidate> result;
    for (const char* name : names) result.push_back(parse_candidate(name, PruneOptions()));
    return result;
  };
  const auto result = compare(model.open(), Options(), candidates({"wanda", "wanda+mask"}), calibration, text,
                              20, scratch / "out", no_progress());
  ASSERT_EQ(result.size(), 3u);
  EXPECT_EQ(result[0].name, "dense");
  EXPECT_TRUE(result[0].report.layers.empty());
  for (const ComparedModel& one : result) {
    EXPECT_GT(one.held_out_perplexity, 1.0);
    EXPECT_GT(one.text_perplexity.value(), 1.0);
  }
  EXPECT_NE(result[1].held_out_perplexity, result[0].held_out_perplexity);
  EXPECT_LT(result[2].report.layers[0].relative_error, result[1].report.layers[0].relative_error);
  EXPECT_TRUE(std::filesystem::exists(scratch / "out/wanda+mask/model.safetensors"));
  // What cannot be done is told before anything is.
  const auto refusal = [&](std::initializer_list<const char*> names) {
    return error_of([&] {
      compare(model.open(), Options(), candidates(names), calibration, text, 20, scratch / "out",
              no_progress());
    });
  };
  expect_contains(refusal({"ria", "wanda"}), "wanda");
  expect_contains(refusal({"ria", "ria"}), "named twice");
  EXPECT_FALSE(std::filesystem::exists(scratch / "out/ria"));
}

}  // namespace
}  // namespace grille::compress
