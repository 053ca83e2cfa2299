#include "grille/kernels/add_gram.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"

namespace grille::kernels {
namespace {

struct Inputs {
  std::vector<float> x;
  std::int64_t tokens, n, stride;

  Inputs(std::int64_t t, std::int64_t cols, std::uint32_t seed)
      : x(static_cast<std::size_t>(t * (cols + 5))), tokens(t), n(cols), stride(cols + 5) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& value : x) value = std::pow(normal(random), 3.0f);  // heavy tails, as activations have
  }
  ConstMatrixView view() const { return {x.data(), DType::kFloat32, tokens, n, stride}; }
  double at(std::int64_t t, std::int64_t c) const { return x[static_cast<std::size_t>(t * stride + c)]; }
};

TEST(PerIsaAddGram, AddsTheSumsOfProducts) {
  for (const std::int64_t n : {1, 5, 23, 24, 25, 97}) {
    for (const std::int64_t tokens : {0, 1, 127, 129, 1100}) {
      const Inputs inputs(tokens, n, static_cast<std::uint32_t>(n * 10000 + tokens));
      std::vector<double> gram(static_cast<std::size_t>(n * n), 0.5);
      add_gram(inputs.view(), gram.data());
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = i; j < n; ++j) {
          double sum = 0.5, magnitude = 0.5;
          for (std::int64_t t = 0; t < tokens; ++t) {
            const double product = inputs.at(t, i) * inputs.at(t, j);
            sum += product;
            magnitude += std::abs(product);
          }
          // Two fp64 sums of the same exact products: each is off by terms * 2^-53 of the magnitudes.
          const double bound = 2.0 * static_cast<double>(tokens + 1) * 0x1p-53 * magnitude;
          ASSERT_NEAR(gram[static_cast<std::size_t>(i * n + j)], sum, bound) << n << " " << tokens;
        }
      }
    }
  }
}

TEST(PerIsaAddGram, DoesNotDependOnThreads) {
  const Inputs inputs(300, 130, 7);
  const int before = num_threads();
  std::vector<double> one(130 * 130), three(130 * 130);
  set_num_threads(1);
  add_gram(inputs.view(), one.data());
  set_num_threads(3);
  add_gram(inputs.view(), three.data());
  set_num_threads(before);
  EXPECT_EQ(one, three);
}

TEST(AddGram, RefusesOtherDtypes) {
  double gram = 0;
  EXPECT_THROW(add_gram({&gram, DType::kFloat64, 1, 1, 1}, &gram), Error);
}

}  // namespace
}  // namespace grille::kernels
