#include "grille/kernels/matmul.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/kernels/matmul_cases.h"
#include "grille/kernels/matmul_plan.h"
#include "grille/kernels/reference_values.h"

namespace grille::kernels {
namespace {

constexpr DType kFloatTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr DType kAllTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3};

using Case = testing::MatmulCase;
using Problem = testing::MatmulProblemData;
using testing::run_reference;

void run(const Problem& p, const MatmulOutput& output) {
  const AnyWeight weight = p.weight();
  if (const auto* dense = std::get_if<DenseWeight>(&weight)) return matmul_dense(p.tokens(), *dense, output);
  matmul_24(p.tokens(), std::get<TwoFourWeight>(weight), output);
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

void check_all_types(bool two_four, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (DType x : kAllTypes) {
    for (DType weight : kAllTypes) {
      for (DType y : kFloatTypes) {
        Case c = testing::random_matmul_case(random, two_four);
        c.x = x;
        c.weight = weight;
        c.y = y;
        check_case(c, random());
        if (::testing::Test::HasFatalFailure()) return;
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

// Sums are cut at 4096 columns, panels of floats at 1024 too, and both may end in a partial step.
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

// More panels of rows than are summed together, or a last one that is smaller, each with rest columns.
TEST(PerIsaMatmul, ManyLongRowsMatchReference) {
  for (DType weight : {DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat32}) {
    for (bool two_four : {false, true}) {
      check_case({.m = 9, .n = 1203, .k = 4108, .weight = weight, .two_four = two_four}, 3);
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

// Where y is scaled and a bias added, too: rows are cut in pieces anew in each run.
TEST(PerIsaMatmul, AnotherRunGivesTheSameBits) {
  for (std::int64_t n : {67, 1031}) {
    for (DType weight : {DType::kFloat16, DType::kFloat8E4M3}) {
      const Problem problem(
          {.m = 1, .n = n, .k = 512, .x = DType::kFloat8E4M3, .weight = weight, .bias = true}, 17);
      auto first = problem.initial();
      run(problem, problem.output(first));
      for (int i = 0; i < 50; ++i) {
        auto again = problem.initial();
        run(problem, problem.output(again));
        ASSERT_EQ(first, again) << "n " << n << ", run " << i;
      }
    }
  }
}

TEST(PerIsaMatmul, RowDoesNotDependOnOtherRowsOrThreads) {
  constexpr std::int64_t kTokens = 40;
  for (DType weight : {DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat16}) {
    for (bool two_four : {false, true}) {
      const Problem problem({.m = kTokens, .n = 71, .k = 4364, .weight = weight, .two_four = two_four}, 11);
      auto together = problem.initial();
      run(problem, problem.output(together));
      auto alone = problem.initial();
      // On AVX-512 a single token of a 2:4 weight may be summed in another order; so may few tokens, where
      // many are multiplied in tiles.
      const bool gathered = two_four && weight != DType::kFloat16 && active_isa() >= Isa::kAvx512;
      std::int64_t rows = gathered ? 2 : 1;
      const auto compute = [&](std::int64_t m) {
        return plan_matmul({.m = m, .n = 71, .k = 4364, .weight = weight, .two_four = two_four}, active_isa(),
                           slow_bfloat16_pairs())
            .compute;
      };
      while (compute(rows) != compute(kTokens)) ++rows;
      ASSERT_EQ(kTokens % rows, 0);
      const int threads = num_threads();
      set_num_threads(1);
      const AnyWeight w = problem.weight();
      for (std::int64_t i = 0; i < kTokens; i += rows) {
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
TEST(PerIsaMatmul, NormalFloat8ValuesAndAFewZeros) {
  for (testing::Values values : {testing::Values::kNormal, testing::Values::kNormalOrZero}) {
    for (std::int64_t k : {4, 60, 64, 132, 640, 4364}) {
      for (std::int64_t n : {1, 2, 3, 7, 71}) {
        for (bool two_four : {false, true}) {
          for (std::int64_t m : {1, 2}) {
            const Case c = {
                .m = m, .n = n, .k = k, .weight = DType::kFloat8E4M3, .two_four = two_four, .values = values};
            check_case(c, static_cast<std::uint32_t>(k + n));
          }
        }
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
