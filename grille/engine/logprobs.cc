#include "grille/engine/logprobs.h"

#include <algorithm>
#include <cmath>

#include "grille/base/error.h"
#include "grille/kernels/summarize_logits.h"

namespace grille::engine {
namespace {

double log_sum_exp(std::span<const float> logits) {
  const kernels::LogitSummary summary = kernels::summarize_logits(logits);
  check(summary.best >= 0 && std::isfinite(logits[static_cast<std::size_t>(summary.best)]),
        ErrorCode::kCorruptData, "log-probabilities: the model's logits are not finite; try --dtype float32");
  return summary.log_sum_exp;
}

std::vector<TokenLogprob> largest(std::span<const float> logits, std::int64_t count, double sum) {
  const auto more = [&](std::int32_t a, std::int32_t b) {
    const float la = logits[static_cast<std::size_t>(a)];
    const float lb = logits[static_cast<std::size_t>(b)];
    return la != lb ? la > lb : a < b;
  };
  // The best so far, the least of them at the front of a heap.
  std::vector<std::int32_t> best;
  const auto limit = static_cast<std::size_t>(count);
  for (std::int32_t id = 0; limit > 0 && id < static_cast<std::int32_t>(logits.size()); ++id) {
    if (best.size() == limit) {
      if (!more(id, best.front())) continue;
      std::pop_heap(best.begin(), best.end(), more);
      best.pop_back();
    }
    best.push_back(id);
    std::push_heap(best.begin(), best.end(), more);
  }
  std::sort_heap(best.begin(), best.end(), more);
  std::vector<TokenLogprob> result;
  for (const std::int32_t id : best) {
    result.push_back({id, static_cast<float>(logits[static_cast<std::size_t>(id)] - sum)});
  }
  return result;
}

}  // namespace

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, std::int64_t count) {
  if (count == 0) return {};
  return largest(logits, count, log_sum_exp(logits));
}

PositionLogprobs position_logprobs(std::span<const float> logits, std::int32_t token, std::int64_t count) {
  const double sum = log_sum_exp(logits);
  const float logprob = static_cast<float>(logits[static_cast<std::size_t>(token)] - sum);
  return {{token, logprob}, largest(logits, count, sum)};
}

}  // namespace grille::engine
