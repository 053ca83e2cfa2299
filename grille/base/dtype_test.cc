#include "grille/base/dtype.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

namespace grille {
namespace {

constexpr int kDTypes = static_cast<int>(DType::kBool) + 1;

TEST(DType, NamesAreUniqueAndLeadBackToTheirType) {
  std::set<std::string_view> names;
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_TRUE(names.insert(dtype_name(dtype)).second) << dtype_name(dtype);
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from_name("float8"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(DType, SizesAreThoseInTheNames) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string_view name = dtype_name(dtype);
    const std::size_t bits = name.find("64") != name.npos   ? 64
                             : name.find("32") != name.npos ? 32
                             : name.find("16") != name.npos ? 16
                                                            : 8;
    EXPECT_EQ(dtype_size(dtype), bits / 8) << name;
  }
}

TEST(DType, FloatsAreFloatingPointAndNothingElseIs) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(is_floating_point(dtype), dtype_name(dtype).find("float") != std::string_view::npos);
  }
}

}  // namespace
}  // namespace grille
