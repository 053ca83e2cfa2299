#include "grille/tensors/weight.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/tensors/finite.h"
#include "grille/tensors/views.h"

namespace grille::tensors {
namespace {

const std::vector<at::ScalarType> kDTypes = {at::kFloat, at::kBFloat16, at::kHalf, at::kFloat8_e4m3fn};

// A random weight with zero to two non-zeros a group; some zeros are -0.
at::Tensor random_two_four(std::int64_t rows, std::int64_t cols, at::ScalarType dtype, unsigned seed) {
  std::mt19937 random(seed);
  at::Tensor dense = at::zeros({rows, cols}, at::kFloat);
  float* data = dense.mutable_data_ptr<float>();
  for (std::int64_t group = 0; group < rows * cols / 4; ++group) {
    for (unsigned j = 0; j < 4; ++j) data[group * 4 + j] = random() % 2 ? 0.0f : -0.0f;
    for (unsigned k = 0; k < random() % 3; ++k) {
      data[group * 4 + random() % 4] = (static_cast<float>(random() % 200) - 100.0f) / 16.0f;
    }
  }
  return dense.to(dtype);
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(Weight, PackingThenUnpackingGivesTheSameNumbers) {
  for (at::ScalarType dtype : kDTypes) {
    for (std::int64_t cols : {4, 8, 12, 60, 64, 68, 128, 1000}) {
      const at::Tensor dense = random_two_four(5, cols, dtype, static_cast<unsigned>(cols));
      const Weight weight = two_four_from_dense(dense, "w");
      EXPECT_TRUE(at::equal(to_dense_values(weight).to(at::kFloat), dense.to(at::kFloat)))
          << dtype << " " << cols;
    }
  }
}

TEST(Weight, EveryGroupKeepsExactlyTwoColumnsAndPaddingIsZero) {
  for (at::ScalarType dtype : kDTypes) {
    for (std::int64_t cols : {4, 12, 64, 100}) {
      const Weight weight = two_four_from_dense(random_two_four(3, cols, dtype, 7), "w");
      const formats::TwoFourBitmaskView view = two_four_view(weight);
      EXPECT_EQ(view.mask_stride % 8, 0);
      EXPECT_EQ(view.value_stride, view.mask_stride * 4);
      EXPECT_EQ(view.value_stride, (cols + 63) / 64 * 32);
      const auto* values = static_cast<const std::uint8_t*>(view.values);
      const std::size_t element = dtype_size(view.dtype);
      for (std::int64_t row = 0; row < 3; ++row) {
        const std::uint8_t* mask = view.mask + row * view.mask_stride;
        EXPECT_EQ(first_bad_group(mask, view.mask_stride * 8), -1);
        for (std::int64_t group = cols / 4; group < view.mask_stride * 2; ++group) {
          EXPECT_EQ((mask[group / 2] >> (group % 2 * 4)) & 0xf, 0b0011);
        }
        for (std::size_t i = static_cast<std::size_t>(cols / 2) * element;
             i < static_cast<std::size_t>(view.value_stride) * element; ++i) {
          EXPECT_EQ(values[static_cast<std::size_t>(row * view.value_stride) * element + i], 0);
        }
      }
    }
  }
}

TEST(Weight, MissingEntriesTakeTheLowestFreeColumnsAndMinusZeroBecomesPlusZero) {
  const at::Tensor dense = at::tensor({0.0f, -0.0f, 3.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f}).view({1, 8});
  const Weight weight = two_four_from_dense(dense, "w");
  EXPECT_EQ(two_four_view(weight).mask[0], 0b0011'0101);
  const float* values = weight.values.const_data_ptr<float>();
  const float expected[] = {0.0f, 3.0f, 0.0f, 0.0f};
  EXPECT_EQ(std::memcmp(values, expected, sizeof expected), 0);  // bits: no -0
}

TEST(Weight, AThirdNonZeroIsAnErrorThatNamesItsPlaceAndValues) {
  at::Tensor dense = at::zeros({3, 16}, at::kFloat);
  for (int j = 0; j < 3; ++j) dense.mutable_data_ptr<float>()[2 * 16 + 8 + j] = static_cast<float>(j + 1);
  EXPECT_EQ(
      message_of([&] { two_four_from_dense(dense, "layer.q"); }),
      "layer.q: row 2, group 2 (columns 8 to 11): weights 1, 2, 3, 0: 2:4 allows two that are not zero");
}

TEST(Weight, NanAndInfinityAreErrors) {
  for (at::ScalarType dtype : kDTypes) {
    at::Tensor dense = at::zeros({1, 8}, at::kFloat);
    dense.mutable_data_ptr<float>()[5] = std::nanf("");
    EXPECT_THROW(two_four_from_dense(dense.to(dtype), "w"), Error);
    if (dtype == at::kFloat8_e4m3fn) continue;  // has no infinity
    dense.mutable_data_ptr<float>()[5] = -std::numeric_limits<float>::infinity();
    EXPECT_THROW(two_four_from_dense(dense.to(dtype), "w"), Error);
  }
}

TEST(Weight, ARowWithABadBitmaskIsReported) {
  Weight weight = empty_two_four(1, 12, DType::kBFloat16);
  const std::vector<std::uint16_t> values(6, 0x3f80);
  const std::uint8_t good[] = {0b1001'0110, 0b0000'1100};
  EXPECT_TRUE(set_two_four_row(weight, 0, values.data(), good));
  EXPECT_EQ(two_four_view(weight).mask[1], 0b0011'1100);
  for (int byte = 0; byte < 2; ++byte) {
    for (unsigned nibble = 0; nibble < 16; ++nibble) {
      std::uint8_t mask[] = {good[0], good[1]};
      mask[byte] = static_cast<std::uint8_t>((mask[byte] & 0xf0) | nibble);
      const bool two = __builtin_popcount(nibble) == 2;
      EXPECT_EQ(set_two_four_row(weight, 0, values.data(), mask), two) << nibble;
      EXPECT_EQ(first_bad_group(mask, 12), two ? -1 : byte * 2) << nibble;
    }
  }
}

TEST(Weight, StoredBytesAreNineAndFiveBitsAWeight) {
  const Weight bf16 = two_four_from_dense(random_two_four(16, 256, at::kBFloat16, 1), "w");
  EXPECT_EQ(bf16.stored_bytes() * 8, 9 * 16 * 256);
  Weight fp8 = two_four_from_dense(random_two_four(16, 256, at::kFloat8_e4m3fn, 1), "w");
  fp8.scale = at::zeros({16}, at::kBFloat16);
  EXPECT_EQ(fp8.stored_bytes() * 8, 5 * 16 * 256 + 16 * 16);
  const Weight ragged = two_four_from_dense(random_two_four(2, 12, at::kFloat, 1), "w");
  EXPECT_EQ(ragged.stored_bytes(), 2 * (6 * 4 + 2));
}

TEST(Weight, ScaleIsAppliedPerRow) {
  Weight weight = two_four_from_dense(random_two_four(4, 64, at::kFloat8_e4m3fn, 3), "w");
  weight.scale = at::tensor({1.0f, 0.5f, 2.0f, 0.25f}).to(at::kBFloat16);
  const at::Tensor plain = to_dense_values(weight).to(at::kFloat);
  EXPECT_TRUE(at::equal(to_dense_float(weight), plain.mul(weight.scale.to(at::kFloat).unsqueeze(1))));
}

TEST(Weight, DenseWeightWantsAScaleForFp8AndOnlyThere) {
  EXPECT_THROW(dense_weight(at::zeros({2, 4}, at::kFloat8_e4m3fn)), Error);
  EXPECT_THROW(dense_weight(at::zeros({2, 4}, at::kFloat), at::zeros({2}, at::kFloat)), Error);
  EXPECT_THROW(dense_weight(at::zeros({2, 4}, at::kFloat8_e4m3fn), at::zeros({3}, at::kFloat)), Error);
  EXPECT_THROW(dense_weight(at::zeros({2, 4}, at::kLong)), Error);
  EXPECT_EQ(dense_weight(at::zeros({2, 4}, at::kHalf)).stored_bytes(), 16);
}

TEST(Finite, FindsTheFirstNanOrInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (at::ScalarType dtype :
       {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    at::Tensor values = at::zeros({10000}, at::kFloat);
    values.mutable_data_ptr<float>()[77] = 448.0f;
    EXPECT_EQ(first_not_finite(values.to(dtype).const_data_ptr(), dtype_from_torch(dtype), 10000), -1);
    values.mutable_data_ptr<float>()[9001] = std::nanf("");
    values.mutable_data_ptr<float>()[9500] = -infinity;
    EXPECT_EQ(first_not_finite(values.to(dtype).const_data_ptr(), dtype_from_torch(dtype), 10000), 9001);
  }
}

}  // namespace
}  // namespace grille::tensors
