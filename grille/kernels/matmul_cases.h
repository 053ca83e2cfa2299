// Random problems for the tests of matmul.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "grille/kernels/matmul.h"
#include "grille/kernels/matmul_reference.h"
#include "grille/kernels/reference_values.h"

namespace grille::kernels::testing {

// What float8 kernels tell apart.
enum class Values {
  kAny,           // many zeros and subnormal numbers
  kNormalOrZero,  // no subnormal numbers of float8; a zero here and there
  kNormal,        // neither
};

struct MatmulCase {
  std::int64_t m = 1, n = 1, k = 4;
  DType x = DType::kBFloat16, weight = DType::kBFloat16, y = DType::kFloat32;
  bool two_four = false, bias = false, accumulate = false;
  std::int64_t padding = 0;  // unused elements at the end of each row
  Values values = Values::kAny;

  std::string name() const {
    return fmt::format("m {} n {} k {} x {} weight {}{} y {} bias {} accumulate {} padding {}", m, n, k,
                       dtype_name(x), dtype_name(weight), two_four ? " 2:4" : "", dtype_name(y), bias,
                       accumulate, padding);
  }
};

// Memory of one random problem. Padding holds NaN, so that reading it shows.
class MatmulProblemData {
 public:
  MatmulProblemData(const MatmulCase& c, std::uint32_t seed) : case_(c), random_(seed) {
    x_ = random_matrix(c.m, c.k, c.x, x_values_);
    fill_weight();
    y_initial_ = random_matrix(c.m, c.n, c.y, y_values_);
    for (std::int64_t i = 0; i < c.m; ++i) x_scale_.push_back(positive());
    for (std::int64_t j = 0; j < c.n; ++j) scale_.push_back(positive());
    for (std::int64_t j = 0; j < c.n; ++j) bias_.push_back(4.0f * normal_(random_));
  }

  MatmulTokens tokens() const {
    return {{x_.data(), case_.x, case_.m, case_.k, case_.k + case_.padding},
            case_.x == DType::kFloat8E4M3 ? x_scale_.data() : nullptr};
  }
  DenseWeight dense() const {
    return {{weight_.data(), case_.weight, case_.n, case_.k, case_.k + case_.padding}, scale(), bias()};
  }
  TwoFourWeight sparse() const {
    return {{weight_.data(), mask_.data(), case_.weight, case_.n, case_.k, case_.k / 2 + case_.padding,
             mask_stride()},
            scale(),
            bias()};
  }
  AnyWeight weight() const { return case_.two_four ? AnyWeight(sparse()) : AnyWeight(dense()); }

  std::vector<std::byte> initial() const { return y_initial_; }
  MatmulOutput output(std::vector<std::byte>& y) const {
    return {{y.data(), case_.y, case_.m, case_.n, case_.n + case_.padding}, case_.accumulate};
  }

  // Every partial sum is bounded by the sum of |products|; k roundings of fp32. Where they carry the sum over
  // a rounding boundary of y's dtype, the results are one unit in the last place apart.
  double tolerance(std::int64_t i, std::int64_t j, double expected) const {
    double magnitude = 0.0;
    for (std::int64_t c = 0; c < case_.k; ++c) {
      magnitude += std::fabs(x_values_[i * case_.k + c] * dense_values_[j * case_.k + c]);
    }
    if (case_.x == DType::kFloat8E4M3) magnitude *= x_scale_[i];
    if (case_.weight == DType::kFloat8E4M3) magnitude *= scale_[j];
    if (case_.bias) magnitude += std::fabs(bias_[j]);
    if (case_.accumulate) magnitude += std::fabs(y_values_[i * case_.n + j]);
    const double y_eps = case_.y == DType::kFloat32 ? 0x1p-23 : case_.y == DType::kFloat16 ? 0x1p-10 : 0x1p-7;
    return static_cast<double>(case_.k + 4) * 0x1p-24 * magnitude + y_eps * std::fabs(expected) * 1.01 +
           0x1p-24;  // float16's subnormal step
  }

  void compare(const std::vector<std::byte>& actual, const std::vector<std::byte>& expected) const {
    for (std::int64_t i = 0; i < case_.m; ++i) {
      for (std::int64_t j = 0; j < case_.n; ++j) {
        const std::int64_t at = i * (case_.n + case_.padding) + j;
        const double want = reference_value(case_.y, expected.data(), at);
        const double got = reference_value(case_.y, actual.data(), at);
        ASSERT_LE(std::fabs(got - want), tolerance(i, j, want))
            << case_.name() << " at " << i << ", " << j << ": got " << got << " expected " << want;
      }
      const std::size_t end = (i * (case_.n + case_.padding) + case_.n) * dtype_size(case_.y);
      ASSERT_EQ(
          std::memcmp(actual.data() + end, y_initial_.data() + end, case_.padding * dtype_size(case_.y)), 0)
          << case_.name() << ": row " << i << " was written past its end";
    }
  }

 private:
  float positive() { return std::exp2(normal_(random_)); }
  const float* scale() const { return case_.weight == DType::kFloat8E4M3 ? scale_.data() : nullptr; }
  const float* bias() const { return case_.bias ? bias_.data() : nullptr; }
  std::int64_t mask_stride() const { return (case_.k + 7) / 8 + case_.padding; }

  // A value that the dtype holds; some zeros of both signs, and for float8 some subnormals (below 2^-6).
  float value() {
    const float v = normal_(random_);
    if (case_.values == Values::kNormalOrZero && random_() % 50 == 0) return std::copysign(0.0f, v);
    if (case_.values != Values::kAny) return std::copysign(std::max(std::fabs(v), 0x1p-6f), v);
    switch (random_() % 8) {
      case 0: return 0.0f;
      case 1: return -0.0f;
      case 2: return v * 0x1p-8f;
      default: return v;
    }
  }

  std::vector<std::byte> random_matrix(std::int64_t rows, std::int64_t cols, DType dtype,
                                       std::vector<float>& values) {
    const std::int64_t stride = cols + case_.padding;
    std::vector<std::byte> data(static_cast<std::size_t>(rows * stride) * dtype_size(dtype), std::byte{0xff});
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        set_reference_value(dtype, data.data(), i * stride + j, value());
        values.push_back(reference_value(dtype, data.data(), i * stride + j));
      }
    }
    return data;
  }

  void fill_weight() {
    if (!case_.two_four) {
      weight_ = random_matrix(case_.n, case_.k, case_.weight, dense_values_);
      return;
    }
    constexpr std::uint8_t kPatterns[] = {0b0011, 0b0101, 0b1001, 0b0110, 0b1010, 0b1100};
    const std::int64_t stride = case_.k / 2 + case_.padding;
    weight_.assign(static_cast<std::size_t>(case_.n * stride) * dtype_size(case_.weight), std::byte{0xff});
    mask_.assign(static_cast<std::size_t>(case_.n * mask_stride()), 0);
    dense_values_.assign(static_cast<std::size_t>(case_.n * case_.k), 0.0f);
    for (std::int64_t j = 0; j < case_.n; ++j) {
      std::uint8_t* mask = mask_.data() + j * mask_stride();
      // The bits past the last group are not the kernel's to read.
      std::memset(mask, 0xff, static_cast<std::size_t>(mask_stride()));
      std::int64_t next = j * stride;
      for (std::int64_t group = 0; group < case_.k / 4; ++group) {
        const std::uint8_t pattern = kPatterns[random_() % 6];
        const bool all_zero = case_.values == Values::kAny && random_() % 7 == 0;
        const int shift = group % 2 * 4;
        mask[group / 2] = static_cast<std::uint8_t>((mask[group / 2] & ~(0xf << shift)) | (pattern << shift));
        for (int column = 0; column < 4; ++column) {
          if (((pattern >> column) & 1) == 0) continue;
          set_reference_value(case_.weight, weight_.data(), next, all_zero ? 0.0f : value());
          dense_values_[j * case_.k + group * 4 + column] =
              reference_value(case_.weight, weight_.data(), next);
          ++next;
        }
      }
    }
  }

  MatmulCase case_;
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
  std::vector<std::byte> x_, weight_, y_initial_;
  std::vector<std::uint8_t> mask_;
  std::vector<float> x_values_, dense_values_, y_values_, x_scale_, scale_, bias_;
};

inline void run_reference(const MatmulProblemData& p, const MatmulOutput& output) {
  const AnyWeight weight = p.weight();
  if (const auto* dense = std::get_if<DenseWeight>(&weight))
    return matmul_dense_reference(p.tokens(), *dense, output);
  matmul_24_reference(p.tokens(), std::get<TwoFourWeight>(weight), output);
}

inline MatmulCase random_matmul_case(std::mt19937& random, bool two_four) {
  MatmulCase c;
  c.two_four = two_four;
  c.m = random() % 4 == 0 ? random() % 71 : random() % 10;
  c.n = 1 + random() % 130;
  c.k = 4 * (1 + random() % 132);
  if (!two_four && random() % 2 == 0) c.k += random() % 4;
  c.bias = random() % 2 == 0;
  c.accumulate = random() % 3 == 0;
  c.padding = random() % 2 == 0 ? 0 : 1 + random() % 40;
  return c;
}

}  // namespace grille::kernels::testing
