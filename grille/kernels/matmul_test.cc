#include "grille/kernels/matmul.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/kernels/matmul_reference.h"
#include "grille/kernels/reference_values.h"

namespace grille::kernels {
namespace {

constexpr DType kFloatTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr DType kAllTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3};

struct Case {
  std::int64_t m = 1, n = 1, k = 4;
  DType x = DType::kBFloat16, weight = DType::kBFloat16, y = DType::kFloat32;
  bool two_four = false, bias = false, accumulate = false;
  std::int64_t padding = 0;  // unused elements at the end of each row
  bool normal = false;       // no zeros and no subnormal numbers of float8

  std::string name() const {
    return fmt::format("m {} n {} k {} x {} weight {}{} y {} bias {} accumulate {} padding {}", m, n, k,
                       dtype_name(x), dtype_name(weight), two_four ? " 2:4" : "", dtype_name(y), bias,
                       accumulate, padding);
  }
};

// Memory of one random problem. Padding holds NaN, so that reading it shows.
class Problem {
 public:
  Problem(const Case& c, std::uint32_t seed) : case_(c), random_(seed) {
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
    if (case_.normal) return std::copysign(std::max(std::fabs(v), 0x1p-6f), v);
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
        const bool all_zero = !case_.normal && random_() % 7 == 0;
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

  Case case_;
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
  std::vector<std::byte> x_, weight_, y_initial_;
  std::vector<std::uint8_t> mask_;
  std::vector<float> x_values_, dense_values_, y_values_, x_scale_, scale_, bias_;
};

void run(const Problem& p, const MatmulOutput& output) {
  const AnyWeight weight = p.weight();
  if (const auto* dense = std::get_if<DenseWeight>(&weight)) return matmul_dense(p.tokens(), *dense, output);
  matmul_24(p.tokens(), std::get<TwoFourWeight>(weight), output);
}

void run_reference(const Problem& p, const MatmulOutput& output) {
  const AnyWeight weight = p.weight();
  if (const auto* dense = std::get_if<DenseWeight>(&weight))
    return matmul_dense_reference(p.tokens(), *dense, output);
  matmul_24_reference(p.tokens(), std::get<TwoFourWeight>(weight), output);
}

void check_case(const Case& c, std::uint32_t seed) {
  const Problem problem(c, seed);
  auto actual = problem.initial();
  auto expected = problem.initial();
  run(problem, problem.output(actual));
  run_reference(problem, problem.output(expected));
  problem.compare(actual, expected);
  auto again = problem.initial();
  run(problem, problem.output(again));
  EXPECT_EQ(actual, again) << c.name() << ": two runs differ";
}

Case random_shape(std::mt19937& random, bool two_four) {
  Case c;
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

void check_all_types(bool two_four, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (DType x : kAllTypes) {
    for (DType weight : kAllTypes) {
      for (DType y : kFloatTypes) {
        Case c = random_shape(random, two_four);
        c.x = x;
        c.weight = weight;
        c.y = y;
        check_case(c, random());
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(PerIsaMatmulDense, MatchesReferenceForAllTypesOnRaggedShapes) {
  for (std::uint32_t seed = 1; seed <= 4; ++seed) check_all_types(false, seed);
}

TEST(PerIsaMatmul24, MatchesReferenceForAllTypesOnRaggedShapes) {
  for (std::uint32_t seed = 1; seed <= 4; ++seed) check_all_types(true, seed);
}

TEST(PerIsaMatmul, EveryTokenCountUpTo20MatchesReference) {
  for (DType weight : {DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat32}) {
    for (bool two_four : {false, true}) {
      for (std::int64_t m = 0; m <= 20; ++m) {
        check_case({.m = m, .n = 37, .k = 132, .weight = weight, .two_four = two_four}, 7);
      }
    }
  }
}

// Sums are cut at 4096 columns, panels at 1024 too, and both may end in a partial step.
TEST(PerIsaMatmul, LongRowsMatchReference) {
  for (std::int64_t k : {1024, 1092, 4096, 4100, 8192, 9236}) {
    for (std::int64_t m : {1, 13}) {
      for (DType weight : {DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat32}) {
        check_case({.m = m, .n = 9, .k = k, .weight = weight}, 5);
        check_case({.m = m, .n = 9, .k = k, .weight = weight, .two_four = true}, 5);
      }
    }
  }
}

// All 256 codes but the two NaN ones, against the reference: k = 1 makes each product one value.
TEST(PerIsaMatmulDense, DecodesEveryFloat8CodeExactly) {
  std::vector<std::uint8_t> codes;
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7f) != 0x7f) codes.push_back(static_cast<std::uint8_t>(code));
  }
  const std::int64_t n = static_cast<std::int64_t>(codes.size());
  const std::vector<float> scale(codes.size(), 1.0f);
  for (DType x_dtype : kFloatTypes) {
    std::uint32_t one = 0;
    set_reference_value(x_dtype, &one, 0, 1.0f);
    std::vector<float> y(codes.size());
    matmul_dense({{&one, x_dtype, 1, 1, 1}}, {{codes.data(), DType::kFloat8E4M3, n, 1, 1}, scale.data()},
                 {{y.data(), DType::kFloat32, 1, n, n}});
    for (std::size_t i = 0; i < codes.size(); ++i) {
      EXPECT_EQ(y[i], reference_value(DType::kFloat8E4M3, codes.data(), static_cast<std::int64_t>(i)))
          << "code " << int{codes[i]};
    }
  }
}

TEST(PerIsaMatmul, RowDoesNotDependOnOtherRowsOrThreads) {
  for (DType weight : {DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat16}) {
    for (bool two_four : {false, true}) {
      const Problem problem({.m = 34, .n = 71, .k = 4364, .weight = weight, .two_four = two_four}, 11);
      auto together = problem.initial();
      run(problem, problem.output(together));
      auto alone = problem.initial();
      // Of a 2:4 float8 weight a single token may be summed in another order.
      const std::int64_t rows = two_four && weight == DType::kFloat8E4M3 ? 2 : 1;
      const int threads = num_threads();
      set_num_threads(1);
      const AnyWeight w = problem.weight();
      for (std::int64_t i = 0; i < 34; i += rows) {
        MatmulTokens tokens = problem.tokens();
        MatmulOutput output = problem.output(alone);
        tokens.x.data = tokens.x.row(i);
        output.y.data = output.y.row(i);
        tokens.x.rows = output.y.rows = rows;
        matmul_grouped(tokens, {&w, 1}, {&output, 1});
      }
      set_num_threads(threads);
      EXPECT_EQ(together, alone) << dtype_name(weight) << (two_four ? " 2:4" : "");
    }
  }
}

// A single token that is 1 in one column and 0 elsewhere: y is what the weight holds there, exactly. All
// codes but the two NaN ones, at every column of a step, kept as a group's first or second; all other values
// are normal numbers, since a kernel may look at many values before it takes its way.
TEST(PerIsaMatmul24, OneTokenReadsEveryFloat8CodeAtEveryColumn) {
  constexpr std::int64_t kColumns = 132;  // two steps of 64 and a rest
  std::vector<std::uint8_t> codes;
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7f) != 0x7f) codes.push_back(static_cast<std::uint8_t>(code));
  }
  const std::int64_t n = static_cast<std::int64_t>(codes.size());
  const std::vector<float> scale(codes.size(), 1.0f);
  constexpr std::int64_t kMaskStride = (kColumns + 7) / 8;
  for (std::int64_t column = 0; column < kColumns; ++column) {
    const std::int64_t group = column / 4;
    const auto bit = static_cast<unsigned>(column % 4);
    for (unsigned other = 0; other < 4; ++other) {
      if (other == bit) continue;
      std::vector<std::uint8_t> mask(static_cast<std::size_t>(n * kMaskStride), 0b0110'0110);
      std::vector<std::uint8_t> values(static_cast<std::size_t>(n * kColumns / 2), 0x38);
      for (std::int64_t row = 0; row < n; ++row) {
        std::uint8_t& two_groups = mask[static_cast<std::size_t>(row * kMaskStride + group / 2)];
        const unsigned shift = group % 2 * 4;
        two_groups =
            static_cast<std::uint8_t>((two_groups & ~(0xfU << shift)) | (1U << bit | 1U << other) << shift);
        values[static_cast<std::size_t>(row * kColumns / 2 + 2 * group + (bit > other ? 1 : 0))] =
            codes[static_cast<std::size_t>(row)];
      }
      std::vector<std::uint16_t> x(kColumns, 0);
      x[static_cast<std::size_t>(column)] = 0x3f80;
      std::vector<float> y(codes.size());
      matmul_24({{x.data(), DType::kBFloat16, 1, kColumns, kColumns}},
                {{values.data(), mask.data(), DType::kFloat8E4M3, n, kColumns, kColumns / 2, kMaskStride},
                 scale.data()},
                {{y.data(), DType::kFloat32, 1, n, n}});
      for (std::size_t i = 0; i < codes.size(); ++i) {
        ASSERT_EQ(y[i], reference_value(DType::kFloat8E4M3, codes.data(), static_cast<std::int64_t>(i)))
            << "code " << int{codes[i]} << ", column " << column << ", other " << other;
      }
    }
  }
}

// Other cases have a value that is not normal in nearly every step.
TEST(PerIsaMatmul24, OneTokenOfNormalFloat8Values) {
  for (std::int64_t k : {4, 60, 64, 132, 640, 4364}) {
    for (std::int64_t n : {1, 2, 3, 7, 71}) {
      for (std::int64_t m : {1, 2}) {
        check_case({.m = m, .n = n, .k = k, .weight = DType::kFloat8E4M3, .two_four = true, .normal = true},
                   static_cast<std::uint32_t>(k + n));
      }
    }
  }
}

TEST(PerIsaMatmulGrouped, EqualsSingleCalls) {
  for (std::int64_t m : {1, 3, 40}) {
    const Problem a({.m = m, .n = 61, .k = 192, .bias = true}, 1);
    const Problem b({.m = m, .n = 5, .k = 192, .weight = DType::kFloat8E4M3, .two_four = true}, 2);
    const Problem c({.m = m, .n = 30, .k = 192, .weight = DType::kFloat16, .two_four = true}, 3);
    std::vector<std::vector<std::byte>> grouped, single;
    std::vector<AnyWeight> weights;
    std::vector<MatmulOutput> outputs;
    for (const Problem* p : {&a, &b, &c}) {
      grouped.push_back(p->initial());
      single.push_back(p->initial());
      weights.push_back(p->weight());
    }
    std::size_t i = 0;
    for (const Problem* p : {&a, &b, &c}) {
      outputs.push_back(p->output(grouped[i]));
      const MatmulOutput alone = p->output(single[i]);
      matmul_grouped(a.tokens(), {&weights[i], 1}, {&alone, 1});
      ++i;
    }
    matmul_grouped(a.tokens(), weights, outputs);
    EXPECT_EQ(grouped, single) << "m " << m;
  }
}

TEST(Matmul, RefusesWrongShapesAndTypes) {
  const Problem p({.m = 2, .n = 3, .k = 8, .two_four = true}, 1);
  auto y = p.initial();
  auto refuses = [&](MatmulTokens tokens, TwoFourWeight weight, MatmulOutput output, const char* words) {
    try {
      matmul_24(tokens, weight, output);
      FAIL() << "no error about " << words;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
  };
  auto tokens = p.tokens();
  auto weight = p.sparse();
  auto output = p.output(y);
  tokens.x.cols = 4;
  refuses(tokens, weight, output, "x has 4 columns, the weight 8");
  tokens = p.tokens();
  weight.weight.cols = 6;
  refuses(tokens, weight, output, "groups of 4");
  weight = p.sparse();
  output.y.cols = 2;
  refuses(tokens, weight, output, "expected y of [2, 3]");
  output = p.output(y);
  output.y.dtype = DType::kInt8;
  refuses(tokens, weight, output, "y is int8");
  output = p.output(y);
  weight.weight.dtype = DType::kFloat8E4M3;
  refuses(tokens, weight, output, "weight of float8_e4m3fn needs a scale");
  weight = p.sparse();
  tokens.x.dtype = DType::kFloat8E4M3;
  refuses(tokens, weight, output, "x of float8_e4m3fn needs a scale");
}

}  // namespace
}  // namespace grille::kernels
