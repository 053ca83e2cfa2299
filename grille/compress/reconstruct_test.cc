#include "grille/compress/reconstruct.h"

#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "grille/compress/tiny_model.h"
#include "grille/models/load.h"

namespace grille::compress {
namespace {

using models::Slot;

// Windows that differ, so that their order counts.
std::vector<text::CalibrationWindow> windows() {
  std::vector<text::CalibrationWindow> result(4);
  for (std::int32_t window = 0; window < 4; ++window) {
    for (std::int32_t i = 0; i < 40; ++i)
      result[static_cast<std::size_t>(window)].ids.push_back((13 * i * i + (17 + window) * i) % 50);
    result[static_cast<std::size_t>(window)].segment_lengths = {25, 15};
  }
  return result;
}

class Reconstruct : public testing::Test {
 protected:
  // Block 0 with half of two layers' weights gone; what training made of them.
  std::map<Slot, at::Tensor> trained(const ReconstructOptions& options, std::uint64_t seed) {
    models::DecoderLayer layer = models::load_layer(files_, 0, {});
    CalibrationRun calibration(frame_, windows());
    std::vector<at::Tensor> targets;
    calibration.collect(layer, 0, {Slot::kQuery}, &targets);
    std::map<Slot, at::Tensor> weights = pruned_;
    result_ = reconstruct(layer, 0, calibration, targets, options, seed, weights);
    return weights;
  }

  at::Tensor pruned(Slot slot) {
    const at::Tensor dense = tensors::to_dense_float(models::load_weight(files_, 0, slot));
    return dense.mul(at::randn(dense.sizes()).gt(0));
  }

  const c10::InferenceMode inference_;  // as in every command
  const TinyModel model_;
  const models::ModelFiles files_ = model_.open();
  const models::Decoder frame_ = models::load_decoder_frame(files_, {});
  const std::map<Slot, at::Tensor> pruned_ = {{Slot::kUp, pruned(Slot::kUp)},
                                              {Slot::kKey, pruned(Slot::kKey)}};
  Reconstruction result_;
};

TEST_F(Reconstruct, LowersTheHeldOutErrorAndKeepsZeros) {
  const auto weights = trained({.epochs = 20, .rate = 1e-2}, 0);
  EXPECT_LT(result_.error, result_.error_before);  // by how much, random weights do not say
  ASSERT_EQ(weights.size(), 2u);
  for (const auto& [slot, weight] : weights) {
    EXPECT_TRUE(weight.ne(0).eq(pruned_.at(slot).ne(0)).all().item<bool>());
    EXPECT_FALSE(weight.equal(pruned_.at(slot)));
  }
}

TEST_F(Reconstruct, DependsOnTheSeedAndNothingElse) {
  const auto once = trained({.epochs = 3, .rate = 1e-3}, 7);
  const auto again = trained({.epochs = 3, .rate = 1e-3}, 7);
  const auto other = trained({.epochs = 3, .rate = 1e-3}, 8);
  EXPECT_TRUE(once.at(Slot::kUp).equal(again.at(Slot::kUp)));
  EXPECT_FALSE(once.at(Slot::kUp).equal(other.at(Slot::kUp)));
}

TEST_F(Reconstruct, KeepsTheStartWhereTrainingMakesItWorse) {
  const auto weights = trained({.epochs = 20, .rate = 0.9}, 0);
  EXPECT_EQ(result_.error, result_.error_before);
  EXPECT_EQ(result_.epochs, 2);
  for (const auto& [slot, weight] : weights) EXPECT_TRUE(weight.equal(pruned_.at(slot)));
}

TEST(HeldOutWindows, AreEveryEighthOrTheLast) {
  for (std::size_t window = 0; window < 5; ++window) EXPECT_EQ(is_held_out(window, 5), window == 4);
  for (std::size_t window = 0; window < 20; ++window)
    EXPECT_EQ(is_held_out(window, 20), window == 7 || window == 15);
}

}  // namespace
}  // namespace grille::compress
