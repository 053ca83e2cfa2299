#include "grille/tensors/weight_memory.h"

#include <cstdint>
#include <vector>

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::tensors {
namespace {

at::Tensor random_bytes(std::int64_t rows, std::int64_t cols) {
  return at::randint(0, 256, {rows, cols}, at::kByte);
}

TEST(WeightMemory, AWeightKeepsWhatItHolds) {
  const Weight weight{
      WeightFormat::kTwoFour, 3, 8, random_bytes(3, 32).view(at::kFloat8_e4m3fn), random_bytes(3, 8),
      random_bytes(3, 1)};
  WeightMemory memory;
  const Weight placed = memory.place(weight);
  EXPECT_EQ(placed.format, WeightFormat::kTwoFour);
  EXPECT_EQ(placed.rows, 3);
  EXPECT_EQ(placed.cols, 8);
  EXPECT_EQ(placed.dtype(), weight.dtype());
  EXPECT_TRUE(at::equal(placed.values.view(at::kByte), weight.values.view(at::kByte)));
  EXPECT_TRUE(at::equal(placed.mask, weight.mask));
  EXPECT_TRUE(placed.scale.is_same(weight.scale));
  EXPECT_NE(placed.values.const_data_ptr(), weight.values.const_data_ptr());
}

// More than a region, in pieces that do not divide it, and one that is too long: none overlap, all outlive
// the memory object.
TEST(WeightMemory, WeightsLieApartOnCacheLinesAndOutliveIt) {
  std::vector<Weight> originals;
  std::vector<Weight> placed;
  {
    WeightMemory memory;
    for (const std::int64_t bytes : {5, 4'000'001, 64, 4'000'000, 4'000'003, 5'000'000, 1, 4'000'000,
                                     4'000'000, 4'000'000, 4'000'000, 4'000'000, 4'000'000}) {
      originals.push_back(dense_weight(random_bytes(1, bytes).view(at::kFloat8_e4m3fn), at::ones({1})));
      placed.push_back(memory.place(originals.back()));
    }
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(placed[i].values.const_data_ptr()) % 64, 0u);
    EXPECT_TRUE(at::equal(placed[i].values.view(at::kByte), originals[i].values.view(at::kByte))) << i;
    const bool stays = originals[i].values.numel() > WeightMemory::kLongestBytes;
    EXPECT_EQ(placed[i].values.is_same(originals[i].values), stays) << i;
  }
}

TEST(WeightMemory, RefusesWhatIsNotContiguous) {
  WeightMemory memory;
  EXPECT_THROW(memory.place(dense_weight(at::ones({4, 6}).t())), Error);
}

}  // namespace
}  // namespace grille::tensors
