#include "grille/prune/scores.h"

#include <cmath>
#include <vector>

#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::prune {
namespace {

Pattern groups(std::int64_t keep, std::int64_t group) {
  return {Pattern::Kind::kGroups, keep, group, 1.0 - static_cast<double>(keep) / static_cast<double>(group)};
}

Pattern unstructured(double sparsity) { return {Pattern::Kind::kUnstructured, 0, 0, sparsity}; }

at::Tensor row(std::initializer_list<float> values) { return at::tensor(values, at::kFloat).unsqueeze(0); }

std::vector<bool> kept(const at::Tensor& mask) {
  const at::Tensor flat = mask.contiguous().flatten();
  const bool* data = flat.const_data_ptr<bool>();
  return std::vector<bool>(data, data + flat.numel());
}

TEST(KeepMask, KeepsTheHighestOfEveryGroup) {
  const at::Tensor mask = keep_mask(row({1, 4, 3, 2, 9, 0, 0, 8}), groups(2, 4), Scope::kRow);
  EXPECT_EQ(kept(mask), (std::vector<bool>{false, true, true, false, true, false, false, true}));
}

TEST(KeepMask, OfEqualScoresTheLowerColumnIsPruned) {
  EXPECT_EQ(kept(keep_mask(row({5, 5, 5, 5}), groups(2, 4), Scope::kRow)),
            (std::vector<bool>{false, false, true, true}));
  EXPECT_EQ(kept(keep_mask(row({5, 1, 5, 5}), groups(2, 4), Scope::kRow)),
            (std::vector<bool>{false, false, true, true}));
  EXPECT_EQ(kept(keep_mask(row({7, 7, 7, 7}), unstructured(0.25), Scope::kRow)),
            (std::vector<bool>{false, true, true, true}));
}

TEST(KeepMask, RowScopePrunesTheSameShareOfEveryRow) {
  const at::Tensor scores = at::randn({13, 50}).abs();
  const at::Tensor pruned = keep_mask(scores, unstructured(0.33), Scope::kRow).logical_not().sum(1);
  EXPECT_TRUE(pruned.eq(16).all().item<bool>());  // floor(50 * 0.33)
}

TEST(KeepMask, MatrixScopePrunesEverythingUpToTheThreshold) {
  // Sorted: 1 2 2 3 4 5; entry floor(6 * 0.34) = 2 is the second 2, so both twos go.
  const at::Tensor mask = keep_mask(row({3, 2, 1, 5, 2, 4}), unstructured(0.34), Scope::kMatrix);
  EXPECT_EQ(kept(mask), (std::vector<bool>{true, false, false, true, false, true}));
}

TEST(KeepMask, RefusesRaggedGroupsAndNan) {
  EXPECT_THROW(keep_mask(at::zeros({2, 6}), groups(2, 4), Scope::kRow), Error);
  EXPECT_THROW(keep_mask(row({1, NAN, 2, 3}), groups(2, 4), Scope::kRow), Error);
}

TEST(WandaScores, AreMagnitudeTimesInputNorm) {
  const at::Tensor scores = wanda_scores(row({-2, 3}), at::tensor({4.0f, 0.25f}));
  EXPECT_EQ(scores[0][0].item<float>(), 4.0f);
  EXPECT_EQ(scores[0][1].item<float>(), 1.5f);
}

TEST(RiaScores, AddTheSharesOfRowAndColumn) {
  const at::Tensor weight = at::tensor({-1.0f, 3.0f, 3.0f, 1.0f}).view({2, 2});
  const at::Tensor scores = ria_scores(weight, at::tensor({16.0f, 1.0f}));  // fourth roots: 2 and 1
  EXPECT_EQ(scores[0][0].item<float>(), 2 * (1.0f / 4 + 1.0f / 4));
  EXPECT_EQ(scores[0][1].item<float>(), 3.0f / 4 + 3.0f / 4);
  EXPECT_EQ(scores[1][0].item<float>(), 2 * (3.0f / 4 + 3.0f / 4));
}

TEST(RiaScores, OfZerosAreZero) {
  at::Tensor weight = at::randn({5, 8});
  weight.select(0, 2).zero_();
  weight.select(1, 6).zero_();
  const at::Tensor scores = ria_scores(weight, at::randn({8}).square());
  EXPECT_TRUE(scores.eq(0).eq(weight.eq(0)).all().item<bool>());
}

}  // namespace
}  // namespace grille::prune
