#include "grille/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "grille/base/error.h"
#include "grille/kernels/summarize_logits.h"

namespace grille::engine {
namespace {

void check_range(bool ok, const char* option, double value, const char* range) {
  check(ok, ErrorCode::kInvalidArgument, "{} {}: expected {}", option, value, range);
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  check_range(options.temperature >= 0 && std::isfinite(options.temperature), "temperature",
              options.temperature, "a number from 0 (greedy) up");
  check_range(options.top_k >= 0, "top_k", static_cast<double>(options.top_k), "0 (off) or more");
  check_range(options.top_p > 0 && options.top_p <= 1, "top_p", options.top_p, "a number above 0, at most 1");
  check_range(options.min_p >= 0 && options.min_p <= 1, "min_p", options.min_p, "a number from 0 to 1");
  check_range(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty),
              "repetition_penalty", options.repetition_penalty, "a number above 0 (1: off)");
}

Sampler::Sampler(const SamplingOptions& options, std::span<const std::int32_t> prompt,
                 std::int64_t vocab_size)
    : options_(options), random_(options.seed), seen_(static_cast<std::size_t>(vocab_size), false) {
  check_sampling(options);
  for (const std::int32_t id : prompt) seen_.at(static_cast<std::size_t>(id)) = true;
}

double Sampler::uniform() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }

Sampled Sampler::sample(std::span<const float> logits) {
  check(logits.size() == seen_.size(), ErrorCode::kInternal, "sampler: expected {} logits, got {}",
        seen_.size(), logits.size());
  const kernels::LogitSummary summary = kernels::summarize_logits(logits);
  check(summary.best >= 0 && std::isfinite(logits[static_cast<std::size_t>(summary.best)]),
        ErrorCode::kCorruptData, "sampler: the model's logits are not finite; try --dtype float32");
  const auto finish = [&](std::int64_t token) {
    seen_[static_cast<std::size_t>(token)] = true;
    return Sampled{static_cast<std::int32_t>(token),
                   static_cast<float>(logits[static_cast<std::size_t>(token)] - summary.log_sum_exp)};
  };
  if (options_.temperature == 0.0 && options_.repetition_penalty == 1.0) return finish(summary.best);

  adjusted_.assign(logits.begin(), logits.end());
  if (options_.repetition_penalty != 1.0) {
    const float penalty = static_cast<float>(options_.repetition_penalty);
    for (std::size_t i = 0; i < adjusted_.size(); ++i) {
      if (seen_[i]) adjusted_[i] = adjusted_[i] > 0 ? adjusted_[i] / penalty : adjusted_[i] * penalty;
    }
  }
  const auto top = std::max_element(adjusted_.begin(), adjusted_.end());
  if (options_.temperature == 0.0) return finish(top - adjusted_.begin());

  // Candidates in falling order of probability; only as many as top-k asks for are sorted.
  const float max = *top;
  order_.resize(adjusted_.size());
  std::iota(order_.begin(), order_.end(), 0);
  const std::size_t kept =
      options_.top_k > 0 ? std::min(static_cast<std::size_t>(options_.top_k), order_.size()) : order_.size();
  const auto higher = [&](std::int32_t a, std::int32_t b) {
    const float la = adjusted_[static_cast<std::size_t>(a)];
    const float lb = adjusted_[static_cast<std::size_t>(b)];
    return la != lb ? la > lb : a < b;
  };
  std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(kept), order_.end(), higher);
  order_.resize(kept);

  std::vector<double> weights(kept);
  double total = 0.0;
  for (std::size_t i = 0; i < kept; ++i) {
    const double logit = adjusted_[static_cast<std::size_t>(order_[i])];
    weights[i] = std::exp((logit - max) / options_.temperature);
    total += weights[i];
  }
  std::size_t count = kept;
  if (options_.top_p < 1.0) {
    double cumulative = 0.0;
    for (count = 0; count < kept && cumulative < options_.top_p * total; ++count)
      cumulative += weights[count];
  }
  while (count > 1 && weights[count - 1] < options_.min_p * weights[0]) --count;

  double remaining =
      std::accumulate(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
  remaining *= uniform();
  std::size_t chosen = 0;
  while (chosen + 1 < count && remaining >= weights[chosen]) remaining -= weights[chosen++];
  return finish(order_[chosen]);
}

}  // namespace grille::engine
