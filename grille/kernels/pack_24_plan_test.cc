#include "grille/kernels/pack_24_plan.h"

#include <gtest/gtest.h>

namespace grille::kernels {
namespace {

void* address(std::uintptr_t value) { return reinterpret_cast<void*>(value); }

ConstMatrixView dense(DType dtype, std::int64_t rows, std::int64_t cols, std::uintptr_t at = 4096) {
  return {address(at), dtype, rows, cols, cols};
}

PackedTwoFour canonical(std::int64_t cols, std::uintptr_t at = 8192) {
  return {address(at), nullptr, cols / 2, (cols + 7) / 8, TwoFourPositions::kMetadata};
}

TEST(Pack24Plan, UsesVectorsWhereEveryRowIsAligned) {
  const DeviceCaps h200;
  const Pack24Plan plan = plan_pack_24(dense(DType::kBFloat16, 4096, 4096), canonical(4096), h200);
  EXPECT_EQ(to_string(plan), "512 units a row, 256 threads x 4224 blocks, dense vector, values vector");
  // A row of 12 bfloat16 is 24 bytes: not a multiple of 16, nor are 6 values of 8.
  const Pack24Plan ragged = plan_pack_24(dense(DType::kBFloat16, 2, 12), canonical(12), h200);
  EXPECT_EQ(to_string(ragged), "2 units a row, 256 threads x 1 blocks, dense scalar, values scalar");
  EXPECT_FALSE(plan_pack_24(dense(DType::kBFloat16, 2, 64, 4096 + 8), canonical(64), h200).vector_dense);
  EXPECT_FALSE(plan_pack_24(dense(DType::kBFloat16, 2, 64), canonical(64, 8192 + 4), h200).vector_values);
  // 8 bytes of float8 are one vector.
  EXPECT_TRUE(plan_pack_24(dense(DType::kFloat8E4M3, 2, 24, 4096 + 8), canonical(24), h200).vector_dense);
}

TEST(Pack24Plan, HasUnitsForPaddingThatIsWrittenButNotForPaddingThatIsNotRead) {
  PackedTwoFour packed = canonical(100);
  packed.position_stride = 16;
  EXPECT_EQ(plan_pack_24(dense(DType::kInt8, 3, 100), packed, {}).units_per_row, 16);
  packed.value_stride = 70;
  EXPECT_EQ(plan_pack_24(dense(DType::kInt8, 3, 100), packed, {}).units_per_row, 18);
  const ConstPackedTwoFour read{packed.values, nullptr, 70, 16, packed.form};
  EXPECT_EQ(plan_unpack_24(dense(DType::kInt8, 3, 100), read, {}).units_per_row, 13);
}

TEST(Pack24Plan, LaunchesNoBlocksForNothingAndNoMoreThanFourWaves) {
  EXPECT_EQ(plan_units(0, 512, {}).blocks, 0);
  EXPECT_EQ(plan_units(1, 1, {}).blocks, 1);
  EXPECT_EQ(plan_units(1 << 20, 1 << 20, {}).blocks, 132 * 8 * 4);
  EXPECT_EQ(plan_units(1 << 20, 1 << 20, {.compute_capability = 80, .multiprocessors = 10}).blocks,
            10 * 8 * 4);
}

}  // namespace
}  // namespace grille::kernels
