#include "grille/evaluate/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/ops/randint.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/models/tiny_decoder.h"
#include "grille/nn/attention.h"

namespace grille::evaluate {
namespace {

using Ids = std::vector<std::int32_t>;

Ids random_ids(std::int64_t count) {
  const at::Tensor ids = at::randint(50, {count}, at::kInt);
  return {ids.const_data_ptr<std::int32_t>(), ids.const_data_ptr<std::int32_t>() + count};
}

// The definition: -log p(ids[at] | ids[begin..at - 1]), from a run over just these tokens.
double nll(const models::Decoder& model, const Ids& ids, std::int64_t begin, std::int64_t at) {
  const Ids before(ids.begin() + begin, ids.begin() + at);
  std::vector<std::int64_t> positions(before.size());
  std::iota(positions.begin(), positions.end(), 0);
  nn::SegmentAttention attention({at - begin});
  const at::Tensor hidden = model.forward(before, positions, attention);
  const at::Tensor logits = model.logits(hidden.narrow(0, at - begin - 1, 1)).to(at::kDouble);
  return -logits.log_softmax(1)[0][ids[static_cast<std::size_t>(at)]].item<double>();
}

struct Score {  // of one window
  double sum = 0.0;
  double count = 0.0;
};

void expect_equal(const PerplexityResult& result, const std::vector<Score>& windows) {
  double sum = 0.0;
  double count = 0.0;
  for (const Score& window : windows) {
    sum += window.sum;
    count += window.count;
  }
  ASSERT_EQ(result.windows, static_cast<std::int64_t>(windows.size()));
  ASSERT_EQ(result.tokens, static_cast<std::int64_t>(count));
  // Logits of magnitude up to 32 in fp32, each the end of some hundred roundings that differ with the number
  // of tokens run at once; exp(mean) has the mean's error, relative.
  const double error = 32 * 200 * 0x1p-24;
  EXPECT_NEAR(result.nll_sum / count, sum / count, error);
  EXPECT_NEAR(result.perplexity, std::exp(sum / count), 2 * error * result.perplexity);
  ASSERT_EQ(result.standard_error.has_value(), windows.size() > 1);
  if (windows.size() < 2) return;
  // Linearised: the spread of sum - mean * count over windows, n - 1 in the denominator.
  double squares = 0.0;
  for (const Score& window : windows) squares += std::pow(window.sum - sum / count * window.count, 2);
  const double n = static_cast<double>(windows.size());
  const double expected = std::exp(sum / count) * std::sqrt(n / (n - 1) * squares) / count;
  EXPECT_NEAR(*result.standard_error, expected, 1e-2 * expected);  // squares of differences of nearby numbers
}

std::string error_of(const auto& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class Perplexity : public testing::Test {
 protected:
  PerplexityResult run(const Ids& ids, std::int64_t context, std::int64_t stride = 0) {
    return perplexity(model_, ids, {context, stride}, no_progress());
  }
  const c10::InferenceMode inference_;
  const models::Decoder model_ = models::tiny_decoder(200);
};

TEST_F(Perplexity, WindowsDoNotOverlapAndALastPartialOneIsDropped) {
  for (const std::int64_t length : {10, 19, 20, 37}) {
    const Ids ids = random_ids(length);
    std::vector<Score> windows;
    for (std::int64_t begin = 0; begin + 10 <= length; begin += 10) {
      Score& window = windows.emplace_back();
      for (std::int64_t at = begin + 1; at < begin + 10; ++at) window.sum += nll(model_, ids, begin, at);
      window.count = 9;
    }
    expect_equal(run(ids, 10), windows);
  }
}

// Every token but the first is scored once, by the first window that holds it (with one token before it).
TEST_F(Perplexity, WithAStrideEachTokenIsScoredByTheFirstWindowThatHoldsIt) {
  for (const std::int64_t stride : {1, 3, 9}) {
    for (const std::int64_t length : {10, 11, 24, 31}) {
      const Ids ids = random_ids(length);
      std::vector<Score> windows;
      std::int64_t next = 1;
      for (std::int64_t begin = 0; next < length; begin += stride) {
        Score& window = windows.emplace_back();
        for (; next < std::min(begin + 10, length); ++next) {
          window.sum += nll(model_, ids, begin, next);
          window.count += 1;
        }
      }
      const PerplexityResult result = run(ids, 10, stride);
      ASSERT_EQ(result.tokens, length - 1) << stride << " " << length;
      expect_equal(result, windows);
    }
  }
}

TEST_F(Perplexity, AStrideOfTheContextScoresALastPartialWindowToo) {
  const Ids ids = random_ids(24);
  std::vector<Score> windows;
  for (std::int64_t begin : {0, 10, 20}) {
    Score& window = windows.emplace_back();
    for (std::int64_t at = begin + 1; at < std::min<std::int64_t>(begin + 10, 24); ++at) {
      window.sum += nll(model_, ids, begin, at);
      window.count += 1;
    }
  }
  expect_equal(run(ids, 10, 10), windows);
}

TEST_F(Perplexity, LongWindowsAreScoredInPieces) {  // of 64 rows of logits
  const Ids ids = random_ids(150);
  Score window;
  for (std::int64_t at = 1; at < 150; ++at) window.sum += nll(model_, ids, 0, at);
  window.count = 149;
  expect_equal(run(ids, 150), {window});
  const std::vector<double> logprobs = token_logprobs(model_, ids);
  ASSERT_EQ(logprobs.size(), 149u);
  for (const std::int64_t at : {1, 63, 64, 65, 66, 128, 129, 149}) {
    // As above: a logit's error.
    EXPECT_NEAR(-logprobs[static_cast<std::size_t>(at - 1)], nll(model_, ids, 0, at), 32 * 200 * 0x1p-24)
        << at;
  }
}

TEST_F(Perplexity, DocumentsAreScoredAloneAndCutAtTheContext) {
  const std::vector<Ids> documents = {random_ids(5), random_ids(1), {}, random_ids(25), random_ids(2)};
  std::vector<Score> windows;
  for (const Ids& document : documents) {
    const std::int64_t length = std::min<std::int64_t>(static_cast<std::int64_t>(document.size()), 10);
    if (length < 2) continue;
    Score& window = windows.emplace_back();
    for (std::int64_t at = 1; at < length; ++at) window.sum += nll(model_, document, 0, at);
    window.count = static_cast<double>(length - 1);
  }
  expect_equal(document_perplexity(model_, documents, {10, 0}, no_progress()), windows);
}

TEST_F(Perplexity, RefusesWhatItCannotScore) {
  const Ids ids = random_ids(20);
  EXPECT_NE(error_of([&] { run(ids, 21); }).find("20 tokens"), std::string::npos);
  EXPECT_NE(error_of([&] { run(ids, 1); }).find("--context 1"), std::string::npos);
  EXPECT_NE(error_of([&] { run(random_ids(300), 201); }).find("200"), std::string::npos);
  EXPECT_NE(error_of([&] { run(ids, 10, 11); }).find("--stride 11"), std::string::npos);
  EXPECT_NE(error_of([&] {
              document_perplexity(model_, {{3}, {}}, {10, 0}, no_progress());
            }).find("two tokens"),
            std::string::npos);
}

TEST_F(Perplexity, LogitsThatAreNotFiniteAreAnError) {
  models::Decoder broken = models::tiny_decoder(200);
  broken.norm = broken.norm.mul(1e38);
  EXPECT_NE(error_of([&] {
              perplexity(broken, random_ids(20), {10, 0}, no_progress());
            }).find("not finite"),
            std::string::npos);
}

}  // namespace
}  // namespace grille::evaluate
