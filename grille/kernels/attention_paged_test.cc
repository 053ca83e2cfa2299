#include "grille/kernels/attention_paged.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/kernels/attention_paged_reference.h"
#include "grille/kernels/reference_values.h"

namespace grille::kernels {
namespace {

struct Shape {
  std::int64_t heads = 3, kv_heads = 1, head_dim = 64;
  std::vector<std::pair<std::int64_t, std::int64_t>> sequences;  // start, count
  DType query = DType::kFloat32, cache = DType::kFloat32;
};

// Memory of one random problem; the cache's unused slots hold NaN.
class Problem {
 public:
  Problem(const Shape& shape, std::uint32_t seed) : shape_(shape), random_(seed) {
    std::int64_t pages = 3;  // some that nobody uses
    for (auto [start, count] : shape.sequences) pages += pages_of(start + count);
    std::vector<std::int32_t> order(static_cast<std::size_t>(pages));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    page_ids_ = order;
    const std::int64_t elements = pages * shape.kv_heads * formats::kPageSize * shape.head_dim;
    for (auto* memory : {&keys_, &values_}) {
      memory->assign(static_cast<std::size_t>(elements) * dtype_size(shape.cache), std::byte{0xff});
    }
    kv_ = {keys_.data(), values_.data(), shape.cache, pages, shape.kv_heads, shape.head_dim};
    const std::int32_t* next = page_ids_.data();
    for (auto [start, count] : shape.sequences) {
      spans_.push_back({next, tokens_, start, count});
      next += pages_of(start + count);
      tokens_ += count;
    }
    fill();
    query_ = random_matrix(tokens_, width(), shape.query, 1.0f);
    out_.assign(query_.size(), std::byte{0});
  }

  std::int64_t width() const { return shape_.heads * shape_.head_dim; }
  ConstMatrixView query() const { return {query_.data(), shape_.query, tokens_, width(), width()}; }
  MatrixView out(std::vector<std::byte>& memory) const {
    return {memory.data(), shape_.query, tokens_, width(), width()};
  }
  std::vector<std::byte> run() const {
    auto result = out_;
    attention_paged(query(), spans_, kv_, scale(), out(result));
    return result;
  }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }

  void check() const {
    const auto actual = run();
    auto expected = out_;
    attention_paged_reference(query(), spans_, kv_, scale(), out(expected));
    // Scores are O(1) sums of head_dim products, so each weight has a relative error of about (head_dim + 8)
    // roundings (exp's included); a weighted mean of values of magnitude up to ~4 keeps it, plus the rounding
    // of the result, which may fall on either side.
    const double eps = shape_.query == DType::kFloat32   ? 0x1p-23
                       : shape_.query == DType::kFloat16 ? 0x1p-10
                                                         : 0x1p-7;
    const double sums = static_cast<double>(2 * shape_.head_dim + 16) * 0x1p-24 * 4.0;
    for (std::int64_t i = 0; i < tokens_ * width(); ++i) {
      const double want = reference_value(shape_.query, expected.data(), i);
      const double got = reference_value(shape_.query, actual.data(), i);
      ASSERT_LE(std::fabs(got - want), sums + eps * std::fabs(want))
          << "token " << i / width() << " column " << i % width() << " of " << shape_.heads << "/"
          << shape_.kv_heads << " heads of " << shape_.head_dim << ": got " << got << " expected " << want;
    }
    EXPECT_EQ(actual, run()) << "two runs differ";
  }

  std::vector<formats::SequenceSpan> spans_;
  formats::PagedKvView kv_;

 private:
  static std::int64_t pages_of(std::int64_t tokens) {
    return (tokens + formats::kPageSize - 1) / formats::kPageSize;
  }

  std::vector<std::byte> random_matrix(std::int64_t rows, std::int64_t cols, DType dtype, float size) {
    std::vector<std::byte> data(static_cast<std::size_t>(rows * cols) * dtype_size(dtype));
    for (std::int64_t i = 0; i < rows * cols; ++i)
      set_reference_value(dtype, data.data(), i, size * normal_(random_));
    return data;
  }

  // All keys and values up to each sequence's last position, through store_kv.
  void fill() {
    const std::int64_t kv_width = shape_.kv_heads * shape_.head_dim;
    for (const formats::SequenceSpan& s : spans_) {
      const formats::SequenceSpan all = {s.pages, 0, 0, s.start + s.count};
      const auto key = random_matrix(all.count, kv_width, shape_.query, 1.0f);
      const auto value = random_matrix(all.count, kv_width, shape_.query, 1.0f);
      store_kv({key.data(), shape_.query, all.count, kv_width, kv_width},
               {value.data(), shape_.query, all.count, kv_width, kv_width}, {&all, 1}, kv_);
    }
  }

  Shape shape_;
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
  std::int64_t tokens_ = 0;
  std::vector<std::int32_t> page_ids_;
  std::vector<std::byte> keys_, values_, query_, out_;
};

TEST(PerIsaAttentionPaged, MatchesReferenceForEveryHeadDim) {
  for (std::int64_t head_dim : {8, 20, 64, 80, 96, 128, 256}) {
    Problem({.heads = 4, .kv_heads = 2, .head_dim = head_dim, .sequences = {{0, 45}, {70, 1}, {3, 5}}}, 1)
        .check();
  }
}

TEST(PerIsaAttentionPaged, MatchesReferenceForEveryTypeAndGroup) {
  for (DType query : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (DType cache : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      for (std::int64_t group : {1, 3, 8}) {
        Problem({.heads = 2 * group,
                 .kv_heads = 2,
                 .head_dim = 32,
                 .sequences = {{0, 70}, {17, 2}, {31, 1}},
                 .query = query,
                 .cache = cache},
                2)
            .check();
      }
    }
  }
}

TEST(PerIsaAttentionPaged, LongContextsInPartsMatchReference) {
  Problem({.heads = 6, .kv_heads = 2, .head_dim = 64, .sequences = {{2100, 1}, {600, 2}, {511, 1}, {512, 1}}},
          3)
      .check();
}

TEST(PerIsaAttentionPaged, LongPromptInBlocksMatchesReference) {
  Problem({.heads = 3, .kv_heads = 1, .head_dim = 16, .sequences = {{0, 300}, {129, 200}}}, 4).check();
}

TEST(PerIsaAttentionPaged, DoesNotDependOnThreads) {
  const Problem problem({.heads = 6, .kv_heads = 3, .head_dim = 64, .sequences = {{0, 200}, {1500, 1}}}, 5);
  const auto many = problem.run();
  const int threads = num_threads();
  set_num_threads(1);
  EXPECT_EQ(many, problem.run());
  set_num_threads(threads);
}

TEST(PerIsaAttentionPaged, LargeScoresDoNotOverflow) {
  Problem problem({.heads = 1, .kv_heads = 1, .head_dim = 8, .sequences = {{0, 40}}}, 6);
  std::vector<std::byte> out(problem.run().size());
  attention_paged(problem.query(), problem.spans_, problem.kv_, 1e6f, problem.out(out));
  for (std::size_t i = 0; i < out.size() / 4; ++i) {
    EXPECT_TRUE(std::isfinite(reference_value(DType::kFloat32, out.data(), static_cast<std::int64_t>(i))));
  }
}

TEST(AttentionPaged, RefusesPagesAndRowsOutOfRange) {
  Problem problem({.heads = 2, .kv_heads = 1, .head_dim = 8, .sequences = {{0, 20}}}, 7);
  std::vector<std::byte> out(problem.run().size());
  const auto attend = [&] {
    attention_paged(problem.query(), problem.spans_, problem.kv_, 1.0f, problem.out(out));
  };
  const std::int32_t outside[] = {0, static_cast<std::int32_t>(problem.kv_.num_pages)};
  const std::int32_t* pages = std::exchange(problem.spans_[0].pages, outside);
  EXPECT_THROW(attend(), Error);
  problem.spans_[0].pages = pages;
  problem.spans_[0].first_row = 1;
  EXPECT_THROW(attend(), Error);
  problem.spans_[0].first_row = 0;
  problem.kv_.head_dim = 257;
  EXPECT_THROW(attend(), Error);
}

}  // namespace
}  // namespace grille::kernels
