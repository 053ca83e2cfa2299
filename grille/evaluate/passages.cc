#include "grille/evaluate/passages.h"

#include <algorithm>
#include <optional>

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/base/parallel.h"
#include "grille/engine/kv_cache.h"
#include "grille/engine/kv_pages.h"

namespace grille::evaluate {
namespace {

constexpr std::int64_t kBatchTokens = 1024;  // enough for the matrix products to be at their best on a CPU
constexpr std::int64_t kBatchTokensOnDevices = 16384;
constexpr std::int64_t kLogitBytes = std::int64_t{64} << 20;

// A prediction that is wanted of a batch.
struct Row {
  std::int64_t row;  // of the batch's tokens
  std::size_t passage;
  std::int64_t position;
};

class Batches {
 public:
  Batches(const models::Decoder& model, std::span<const Passage> passages, const LogitsReader& read)
      : model_(model), passages_(passages), read_(read) {
    if (!model.device().is_cpu()) return;
    std::int64_t longest = 0;
    for (const Passage& passage : passages) longest = std::max(longest, length(passage));
    const std::int64_t pages = engine::pages_for(longest) + 2 * engine::pages_for(kBatchTokens);
    pages_.emplace(pages, /*share_prefixes=*/true);
    cache_.emplace(model.config(), pages, model.compute_dtype());
  }

  void run(const std::function<void(std::int64_t)>& after) {
    for (std::size_t i = 0; i < passages_.size(); ++i) {
      if (!add(i)) {
        run_batch();
        after(static_cast<std::int64_t>(i));
        check(add(i), ErrorCode::kInternal, "evaluate: no room for a passage of {} tokens",
              length(passages_[i]));
      }
    }
    if (!ids_.empty()) run_batch();
    after(static_cast<std::int64_t>(passages_.size()));
  }

 private:
  static std::int64_t length(const Passage& passage) { return static_cast<std::int64_t>(passage.ids.size()); }

  // Plans a passage for the batch. False, and nothing changes, where the batch has to run first.
  bool add(std::size_t index) {
    const Passage& passage = passages_[index];
    std::int64_t start = 0;
    engine::PageList pages;
    const std::int64_t most = pages_ ? kBatchTokens : kBatchTokensOnDevices;
    if (pages_) {
      // Up to the first wanted token, which is computed in any case.
      start = pages_->find_prefix(std::span(passage.ids).first(static_cast<std::size_t>(passage.first) + 1),
                                  pages);
    }
    const bool fits =
        ids_.empty() || static_cast<std::int64_t>(ids_.size()) + length(passage) - start <= most;
    if (!fits || (pages_ && !pages_->grow(pages, length(passage)))) {
      if (pages_) pages_->release(pages);
      return false;
    }
    // Recorded before they are computed: in every layer a batch's keys and values are stored before its
    // attention, so that later passages of the same batch may use them.
    if (pages_) pages_->record(passage.ids, length(passage), pages);
    const auto first_row = static_cast<std::int64_t>(ids_.size());
    for (std::int64_t at = start; at < length(passage); ++at) {
      ids_.push_back(passage.ids[static_cast<std::size_t>(at)]);
      positions_.push_back(at);
      if (at >= passage.first) rows_.push_back({first_row + at - start, index, at});
    }
    lists_.push_back(std::move(pages));  // a vector's data stays where it is when the vector is moved
    spans_.push_back({lists_.back().pages.data(), first_row, start, length(passage) - start});
    return true;
  }

  void run_batch() {
    throw_if_interrupted();
    const at::Tensor hidden = forward();
    const std::int64_t vocab = model_.config().vocab_size;
    const std::size_t most = static_cast<std::size_t>(std::max<std::int64_t>(kLogitBytes / (4 * vocab), 1));
    for (std::size_t begin = 0; begin < rows_.size(); begin += most) {
      read_rows(hidden, std::span(rows_).subspan(begin, std::min(most, rows_.size() - begin)));
    }
    for (engine::PageList& list : lists_) {
      if (pages_) pages_->release(list);
    }
    ids_.clear();
    positions_.clear();
    spans_.clear();
    rows_.clear();
    lists_.clear();
  }

  at::Tensor forward() {
    if (cache_) {
      engine::PagedAttention attention(*cache_, spans_);
      return model_.forward(ids_, positions_, attention);
    }
    std::vector<std::int64_t> lengths;
    for (const formats::SequenceSpan& span : spans_) lengths.push_back(span.count);
    nn::SegmentAttention attention(lengths);
    return model_.forward(ids_, positions_, attention);
  }

  void read_rows(const at::Tensor& hidden, std::span<const Row> rows) {
    const at::Tensor indices = at::empty({static_cast<std::int64_t>(rows.size())}, at::kLong);
    auto* index = indices.mutable_data_ptr<std::int64_t>();
    for (const Row& row : rows) *index++ = row.row;
    const at::Tensor logits =
        model_.logits(at::index_select(hidden, 0, indices.to(hidden.device()))).cpu().contiguous();
    const auto vocab = static_cast<std::size_t>(logits.size(1));
    const float* values = logits.const_data_ptr<float>();
    parallel_for(static_cast<std::int64_t>(rows.size()), 1, [&](std::int64_t first, std::int64_t last) {
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
        read_(rows[i].passage, rows[i].position, {values + i * vocab, vocab});
      }
    });
  }

  const models::Decoder& model_;
  std::span<const Passage> passages_;
  const LogitsReader& read_;
  std::optional<engine::KvPages> pages_;  // on the CPU, as cache_
  std::optional<engine::KvCache> cache_;
  // The batch that is being planned.
  std::vector<std::int32_t> ids_;
  std::vector<std::int64_t> positions_;
  std::vector<formats::SequenceSpan> spans_;
  std::vector<engine::PageList> lists_;
  std::vector<Row> rows_;
};

}  // namespace

void for_each_prediction(const models::Decoder& model, std::span<const Passage> passages,
                         const LogitsReader& read, const std::function<void(std::int64_t)>& after) {
  for (const Passage& passage : passages) {
    const auto length = static_cast<std::int64_t>(passage.ids.size());
    check(length >= 1 && length <= model.config().max_positions, ErrorCode::kInvalidArgument,
          "evaluate: a sequence of {} tokens; the model takes 1 to {}", length, model.config().max_positions);
    check(passage.first >= 0 && passage.first < length, ErrorCode::kInvalidArgument,
          "evaluate: predictions from token {} of {}", passage.first, length);
  }
  if (!passages.empty()) Batches(model, passages, read).run(after);
}

}  // namespace grille::evaluate
