#include "grille/kernels/quantize_fp8_rows.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/formats/fp8.h"
#include "grille/kernels/reference_values.h"

namespace grille::kernels {
namespace {

constexpr DType kFloatTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

struct Matrix {
  std::vector<std::byte> data;
  DType dtype;
  std::int64_t rows, cols;

  Matrix(DType type, std::int64_t r, std::int64_t c)
      : data(static_cast<std::size_t>(r * c) * dtype_size(type)), dtype(type), rows(r), cols(c) {}
  MatrixView view() { return {data.data(), dtype, rows, cols, cols}; }
  float at(std::int64_t i, std::int64_t j) const { return reference_value(dtype, data.data(), i * cols + j); }
  void set(std::int64_t i, std::int64_t j, float v) {
    set_reference_value(dtype, data.data(), i * cols + j, v);
  }
  std::uint8_t code(std::int64_t i, std::int64_t j) const {
    return static_cast<std::uint8_t>(data[i * cols + j]);
  }
  float amax(std::int64_t i) const {
    float r = 0.0f;
    for (std::int64_t j = 0; j < cols; ++j) r = std::max(r, std::fabs(at(i, j)));
    return r;
  }
};

// Rows of very different sizes; each has values down to FP8's subnormals and zeros of both signs.
Matrix random_matrix(DType dtype, std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix m(dtype, rows, cols);
  for (std::int64_t i = 0; i < rows; ++i) {
    const float size = std::exp2(static_cast<float>(i % 8) - 4.0f);
    for (std::int64_t j = 0; j < cols; ++j) {
      const float v = size * normal(random);
      m.set(i, j, j % 7 == 0 ? v * 0x1p-10f : j % 11 == 0 ? -0.0f : v);
    }
  }
  return m;
}

TEST(PerIsaQuantizeFp8Rows, EqualsTheDefinitionBitForBit) {
  for (DType dtype : kFloatTypes) {
    for (std::int64_t cols : {1, 7, 16, 100, 577}) {
      Matrix x = random_matrix(dtype, 9, cols, 1);
      Matrix q(DType::kFloat8E4M3, 9, cols);
      std::vector<float> scale(9);
      quantize_fp8_rows(x.view(), q.view(), scale.data());
      for (std::int64_t i = 0; i < 9; ++i) {
        ASSERT_EQ(scale[i], std::max(x.amax(i) / 448.0f, 1.0f / (448.0f * 512.0f)));
        for (std::int64_t j = 0; j < cols; ++j) {
          ASSERT_EQ(q.code(i, j), formats::float_to_fp8(x.at(i, j) / scale[i]))
              << x.at(i, j) << " / " << scale[i];
        }
      }
    }
  }
}

// Every boundary between two codes, its neighbours, and beyond the largest.
TEST(PerIsaQuantizeFp8Rows, RoundsEveryBoundaryToEven) {
  std::vector<float> values;
  for (int code = 0; code < 0x7e; ++code) {
    const float low = formats::fp8_to_float(static_cast<std::uint8_t>(code));
    const float middle = 0.5f * (low + formats::fp8_to_float(static_cast<std::uint8_t>(code + 1)));
    for (float v : {low, std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)}) {
      values.push_back(v);
      values.push_back(-v);
    }
  }
  for (float v : {448.0f, 463.0f, 464.0f, 465.0f, 1e30f}) values.push_back(v);
  Matrix x(DType::kFloat32, 1, static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) x.set(0, static_cast<std::int64_t>(i), values[i]);
  Matrix q(DType::kFloat8E4M3, 1, x.cols);
  const float one = 1.0f;
  EXPECT_EQ(round_to_fp8_rows(x.view(), &one, q.view()), 2);  // 465 and 1e30
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(q.code(0, static_cast<std::int64_t>(i)), formats::float_to_fp8(values[i])) << values[i];
  }
}

TEST(PerIsaFp8WeightScales, AreWhatTheCheckpointStores) {
  for (DType scale_dtype : kFloatTypes) {
    Matrix w = random_matrix(DType::kFloat32, 6, 50, 2);
    for (std::int64_t j = 0; j < 50; ++j) w.set(3, j, 0.0f);
    std::vector<float> scale(6);
    fp8_weight_scales(w.view(), scale_dtype, scale.data());
    for (std::int64_t i = 0; i < 6; ++i) {
      std::uint32_t memory = 0;
      set_reference_value(scale_dtype, &memory, 0, w.amax(i) / 448.0f);
      EXPECT_EQ(scale[i], i == 3 ? 1.0f : reference_value(scale_dtype, &memory, 0));
    }
  }
}

TEST(PerIsaFp8WeightScales, AreNeverZero) {
  Matrix w(DType::kFloat32, 1, 4);
  w.set(0, 2, 1e-12f);
  float scale = 0.0f;
  fp8_weight_scales(w.view(), DType::kFloat16, &scale);
  EXPECT_EQ(scale, 0x1p-24f);
}

TEST(PerIsaQuantizeFp8Rows, RefusesNanAndInfinityNamingTheRow) {
  for (DType dtype : kFloatTypes) {
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      for (std::int64_t column : {0, 16, 36}) {
        Matrix x = random_matrix(dtype, 4, 37, 3);
        x.set(2, column, bad);
        Matrix q(DType::kFloat8E4M3, 4, 37);
        std::vector<float> scale(4);
        try {
          quantize_fp8_rows(x.view(), q.view(), scale.data());
          ADD_FAILURE() << "no error";
        } catch (const Error& e) {
          EXPECT_NE(std::string(e.what()).find("row 2 "), std::string::npos) << e.what();
        }
      }
    }
  }
}

}  // namespace
}  // namespace grille::kernels
