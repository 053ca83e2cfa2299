#include "grille/nn/attention.h"

#include <cmath>

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::nn {
namespace {

// The definition for one query: softmax(q k^T / sqrt(d)) v over the keys [begin, position].
at::Tensor attend(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(query.size(0)));
  const at::Tensor weights = keys.to(at::kDouble).matmul(query.to(at::kDouble)).mul(scale).softmax(0);
  return weights.unsqueeze(0).matmul(values.to(at::kDouble)).squeeze(0);
}

TEST(SegmentAttention, EveryTokenSeesItsOwnDocumentUpToItself) {
  const std::vector<std::int64_t> lengths = {5, 1, 7};
  constexpr std::int64_t kHeads = 4, kKvHeads = 2, kDim = 8, kTokens = 13;
  const at::Tensor query = at::randn({kTokens, kHeads, kDim});
  const at::Tensor key = at::randn({kTokens, kKvHeads, kDim});
  const at::Tensor value = at::randn({kTokens, kKvHeads, kDim});
  SegmentAttention attention(lengths);
  const at::Tensor out = attention.forward(0, query, key, value).view({kTokens, kHeads, kDim});
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    for (std::int64_t t = begin; t < begin + length; ++t) {
      for (std::int64_t head = 0; head < kHeads; ++head) {
        const std::int64_t kv = head / (kHeads / kKvHeads);
        const std::int64_t seen = t + 1 - begin;
        const at::Tensor expected = attend(query[t][head], key.select(1, kv).narrow(0, begin, seen),
                                           value.select(1, kv).narrow(0, begin, seen));
        // Values of size up to 4 averaged with weights that sum to 1: some 8 roundings in the scores, the
        // exponentials and the sums, each half a unit of fp32, of that size; twice as much for good measure.
        EXPECT_LT(out[t][head].to(at::kDouble).sub(expected).abs().max().item<double>(), 64 * 0x1p-24);
      }
    }
    begin += length;
  }
}

TEST(SegmentAttention, RefusesSegmentsThatDoNotCoverTheTokens) {
  SegmentAttention attention({2, 2});
  const at::Tensor x = at::randn({5, 1, 4});
  EXPECT_THROW(attention.forward(0, x, x, x), Error);
}

}  // namespace
}  // namespace grille::nn
