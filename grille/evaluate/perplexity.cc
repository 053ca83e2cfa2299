#include "grille/evaluate/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/ops/amax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/nn/attention.h"

namespace grille::evaluate {
namespace {

// Bytes of logits at a time: they stay in a CPU's caches, or fill a GPU.
constexpr std::int64_t kLogitBytes = std::int64_t{12} << 20;
constexpr std::int64_t kLogitBytesOnDevices = std::int64_t{512} << 20;

// A stretch of tokens that is run as one sequence, and the predictions in it that count.
struct Window {
  std::vector<std::int32_t> ids;
  std::int64_t first_scored = 1;  // index of the first token whose prediction counts
};

// float64 [rows] on the CPU: log softmax(logits)[i, next[i]] for each row i of float32 [rows, vocab].
at::Tensor chosen_logprobs(const at::Tensor& logits, const std::vector<std::int32_t>& ids, std::int64_t begin) {
  const at::Tensor max = at::amax(logits, {1}, /*keepdim=*/true);
  const at::Tensor sums = at::exp(logits.sub(max)).sum({1}, /*keepdim=*/false, at::kDouble);
  at::Tensor next = at::empty({logits.size(0), 1}, at::kLong);
  std::copy_n(ids.begin() + begin, logits.size(0), next.mutable_data_ptr<std::int64_t>());
  const at::Tensor chosen = logits.gather(1, next.to(logits.device())).to(at::kDouble).sub(max);
  return chosen.squeeze(1).sub(sums.log()).cpu();
}

// log p of the tokens ids[first..] given what precedes them; `hidden` is the model's output for ids.
std::vector<double> logprobs_from(const models::Decoder& model, const at::Tensor& hidden,
                                  const std::vector<std::int32_t>& ids, std::int64_t first) {
  const std::int64_t bytes = hidden.device().is_cpu() ? kLogitBytes : kLogitBytesOnDevices;
  const std::int64_t most = std::max<std::int64_t>(bytes / (4 * model.config().vocab_size), 1);
  std::vector<double> result;
  const std::int64_t end = static_cast<std::int64_t>(ids.size());
  for (std::int64_t begin = first; begin < end; begin += most) {
    const std::int64_t rows = std::min(most, end - begin);
    const at::Tensor logprobs = chosen_logprobs(model.logits(hidden.narrow(0, begin - 1, rows)), ids, begin);
    const auto* values = logprobs.const_data_ptr<double>();
    result.insert(result.end(), values, values + rows);
  }
  return result;
}

at::Tensor run(const models::Decoder& model, const std::vector<std::int32_t>& ids) {
  std::vector<std::int64_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  nn::SegmentAttention attention({static_cast<std::int64_t>(ids.size())});
  return model.forward(ids, positions, attention);
}

// Standard error of exp(sum / count) for a ratio of sums over independent windows (delta method).
std::optional<double> standard_error(const std::vector<double>& sums, const std::vector<double>& counts,
                                     double perplexity) {
  const double n = static_cast<double>(sums.size());
  if (sums.size() < 2) return std::nullopt;
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  const double mean = std::accumulate(sums.begin(), sums.end(), 0.0) / total;
  double squares = 0.0;
  for (std::size_t i = 0; i < sums.size(); ++i) squares += std::pow(sums[i] - mean * counts[i], 2);
  return perplexity * std::sqrt(squares * n / (n - 1)) / total;
}

PerplexityResult score(const models::Decoder& model, const std::vector<Window>& windows, Progress& progress) {
  PerplexityResult result;
  std::vector<double> sums;
  std::vector<double> counts;
  progress.start("perplexity", static_cast<std::int64_t>(windows.size()), "windows");
  for (const Window& window : windows) {
    throw_if_interrupted();
    const std::vector<double> logprobs =
        logprobs_from(model, run(model, window.ids), window.ids, window.first_scored);
    sums.push_back(-std::accumulate(logprobs.begin(), logprobs.end(), 0.0));
    check(std::isfinite(sums.back()), ErrorCode::kCorruptData,
          "perplexity: the model's logits in window {} are not finite; try --dtype float32", result.windows);
    counts.push_back(static_cast<double>(logprobs.size()));
    result.nll_sum += sums.back();
    result.tokens += static_cast<std::int64_t>(logprobs.size());
    ++result.windows;
    progress.update(
        result.windows,
        fmt::format("perplexity {:.3f}", std::exp(result.nll_sum / static_cast<double>(result.tokens))));
  }
  progress.finish();
  result.perplexity = std::exp(result.nll_sum / static_cast<double>(result.tokens));
  result.standard_error = standard_error(sums, counts, result.perplexity);
  return result;
}

void check_context(const models::Decoder& model, const PerplexityOptions& options) {
  const std::int64_t most = model.config().max_positions;
  check(options.context >= 2 && options.context <= most, ErrorCode::kInvalidArgument,
        "--context {}: expected 2 to {}, the model's longest", options.context, most);
  check(options.stride >= 0 && options.stride <= options.context, ErrorCode::kInvalidArgument,
        "--stride {}: expected 1 to the context of {}", options.stride, options.context);
}

}  // namespace

PerplexityResult perplexity(const models::Decoder& model, const std::vector<std::int32_t>& ids,
                            const PerplexityOptions& options, Progress& progress) {
  check_context(model, options);
  const std::int64_t length = static_cast<std::int64_t>(ids.size());
  check(length >= options.context, ErrorCode::kInvalidArgument,
        "--text: it has {} tokens, fewer than one window of {}; give more text or a smaller --context",
        length, options.context);
  std::vector<Window> windows;
  const auto slice = [&](std::int64_t begin, std::int64_t end) {
    return std::vector<std::int32_t>(ids.begin() + begin, ids.begin() + end);
  };
  if (options.stride == 0) {
    for (std::int64_t begin = 0; begin + options.context <= length; begin += options.context) {
      windows.push_back({slice(begin, begin + options.context), 1});
    }
    return score(model, windows, progress);
  }
  std::int64_t scored = 1;  // tokens before this one need no more scoring; the first has no prediction
  for (std::int64_t begin = 0; scored < length; begin += options.stride) {
    const std::int64_t end = std::min(begin + options.context, length);
    windows.push_back({slice(begin, end), std::max<std::int64_t>(scored - begin, 1)});
    scored = end;
  }
  return score(model, windows, progress);
}

PerplexityResult document_perplexity(const models::Decoder& model,
                                     const std::vector<std::vector<std::int32_t>>& documents,
                                     const PerplexityOptions& options, Progress& progress) {
  check_context(model, options);
  std::vector<Window> windows;
  for (const auto& document : documents) {
    const std::int64_t length =
        std::min<std::int64_t>(static_cast<std::int64_t>(document.size()), options.context);
    if (length >= 2) windows.push_back({{document.begin(), document.begin() + length}, 1});
  }
  check(!windows.empty(), ErrorCode::kInvalidArgument, "--documents: no document has two tokens or more");
  return score(model, windows, progress);
}

std::vector<double> token_logprobs(const models::Decoder& model, const std::vector<std::int32_t>& ids) {
  return logprobs_from(model, run(model, ids), ids, 1);
}

}  // namespace grille::evaluate
