#include "grille/base/matrix_view.h"

#include <vector>

#include <gtest/gtest.h>

namespace grille {
namespace {

TEST(MatrixView, RowsStartAtTheStrideInElements) {
  std::vector<std::uint16_t> data(3 * 10);
  const MatrixView view{data.data(), DType::kBFloat16, 3, 8, 10};
  EXPECT_EQ(static_cast<void*>(view.row(0)), data.data());
  EXPECT_EQ(static_cast<void*>(view.row(2)), data.data() + 20);
  const ConstMatrixView read_only = view;
  EXPECT_EQ(static_cast<const void*>(read_only.row(1)), data.data() + 10);
  EXPECT_EQ(read_only.cols, 8);
}

TEST(MatrixView, RowOffsetsDoNotOverflow32Bits) {
  const ConstMatrixView view{nullptr, DType::kFloat32, 1 << 20, 1 << 14, 1 << 14};
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.row((1 << 20) - 1)), ((1ull << 20) - 1) << 16);
}

}  // namespace
}  // namespace grille
