#include "grille/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "grille/base/error.h"
#include "grille/kernels/summarize_logits.h"

namespace grille::engine {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// A thread's scratch, of the vocabulary's size.
struct Scratch {
  std::vector<float> logits;
  std::vector<double> weights;
  std::vector<std::int32_t> order;
};

Scratch& scratch() {
  thread_local Scratch memory;
  return memory;
}

void check_range(bool ok, const char* option, double value, const char* range) {
  check(ok, ErrorCode::kInvalidArgument, "{} {}: expected {}", option, value, range);
}

// The lightest token that top-k and top-p keep; of equal weights the lower ids are kept. `order` is scratch.
std::int32_t lightest_kept(const SamplingOptions& options, std::span<const double> weights,
                           std::vector<std::int32_t>& order) {
  const auto weight = [&](std::int32_t token) { return weights[static_cast<std::size_t>(token)]; };
  const auto heavier = [&](std::int32_t a, std::int32_t b) {
    return weight(a) != weight(b) ? weight(a) > weight(b) : a < b;
  };
  order.resize(weights.size());
  std::iota(order.begin(), order.end(), 0);
  auto last = order.end();
  if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < order.size()) {
    last = order.begin() + options.top_k;
    std::nth_element(order.begin(), last - 1, order.end(), heavier);
    if (options.top_p == 1.0) return *(last - 1);
  }
  const auto sum = [&](auto begin, auto end) {
    return std::accumulate(begin, end, 0.0,
                           [&](double so_far, std::int32_t id) { return so_far + weight(id); });
  };
  // The fewest of the heaviest that reach the target: those before `first` do not, those before `last` do.
  auto first = order.begin();
  double missing = options.top_p * sum(first, last);
  while (last - first > 1) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, heavier);
    const double reached = sum(first, middle);
    if (reached >= missing) {
      last = middle;
    } else {
      missing -= reached;
      first = middle;
    }
  }
  return *first;
}

// Bans tokens, unless no other is left.
void ban(std::span<float> logits, std::span<const std::int32_t> tokens) {
  std::vector<std::pair<std::size_t, float>> before;
  for (const std::int32_t token : tokens) {
    const auto id = static_cast<std::size_t>(token);
    if (token < 0 || id >= logits.size()) continue;
    before.emplace_back(id, std::exchange(logits[id], kNever));
  }
  if (std::any_of(logits.begin(), logits.end(), [](float logit) { return logit != kNever; })) return;
  for (auto entry = before.rbegin(); entry != before.rend(); ++entry) logits[entry->first] = entry->second;
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  check_range(options.temperature >= 0 && std::isfinite(options.temperature), "temperature",
              options.temperature, "a number from 0 (greedy) up");
  check_range(options.top_k >= 0, "top_k", static_cast<double>(options.top_k), "0 (off) or more");
  check_range(options.top_p > 0 && options.top_p <= 1, "top_p", options.top_p, "a number above 0, at most 1");
  check_range(options.min_p >= 0 && options.min_p <= 1, "min_p", options.min_p, "a number from 0 to 1");
  check_range(options.frequency_penalty >= -2 && options.frequency_penalty <= 2, "frequency_penalty",
              options.frequency_penalty, "a number from -2 to 2");
  check_range(options.presence_penalty >= -2 && options.presence_penalty <= 2, "presence_penalty",
              options.presence_penalty, "a number from -2 to 2");
  for (const auto& [token, bias] : options.logit_bias) {
    check(bias >= -100 && bias <= 100, ErrorCode::kInvalidArgument,
          "logit_bias of token {}: {}: expected a number from -100 to 100", token, bias);
  }
  check_range(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty),
              "repetition_penalty", options.repetition_penalty, "a number above 0 (1: off)");
}

Sampler::Sampler(const SamplingOptions& options, std::span<const std::int32_t> prompt,
                 std::int64_t vocab_size)
    : options_(options), random_(options.seed), vocab_size_(vocab_size) {
  check_sampling(options);
  for (const auto& [token, bias] : options.logit_bias) {
    check(token >= 0 && token < vocab_size, ErrorCode::kInvalidArgument,
          "logit_bias: token id {} is outside the vocabulary of {}", token, vocab_size);
  }
  if (options.repetition_penalty == 1.0) return;
  for (const std::int32_t id : prompt) seen_[id].in_prompt = true;
}

double Sampler::uniform() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }

// Whether the options leave the logits as they are, but for the temperature.
bool Sampler::keeps_order() const {
  return options_.repetition_penalty == 1.0 && options_.frequency_penalty == 0.0 &&
         options_.presence_penalty == 0.0 && options_.logit_bias.empty();
}

std::span<float> Sampler::adjusted(std::span<const float> logits, const TokenMask& mask) const {
  std::vector<float>& result = scratch().logits;
  result.assign(logits.begin(), logits.end());
  for (const auto& [token, bias] : options_.logit_bias) result[static_cast<std::size_t>(token)] += bias;
  const float repetition = static_cast<float>(options_.repetition_penalty);
  for (const auto& [token, seen] : seen_) {
    float& logit = result[static_cast<std::size_t>(token)];
    logit = logit > 0 ? logit / repetition : logit * repetition;
    if (seen.generated == 0) continue;
    logit -= static_cast<float>(options_.frequency_penalty * seen.generated + options_.presence_penalty);
  }
  for (std::size_t i = 0; i < mask.allowed.size(); ++i) {
    if (mask.allowed[i] == 0) result[i] = kNever;
  }
  ban(result, mask.banned);
  return result;
}

// Of the tokens that top-k, top-p and min-p leave, one by its probability at the temperature.
std::int64_t Sampler::draw(std::span<const float> logits) {
  Scratch& memory = scratch();
  std::vector<double>& weights = memory.weights;
  weights.resize(logits.size());
  const double largest = *std::max_element(logits.begin(), logits.end());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    weights[i] = std::exp((logits[i] - largest) / options_.temperature);  // the largest: 1
  }
  const auto all = static_cast<std::int64_t>(weights.size());
  if ((options_.top_k > 0 && options_.top_k < all) || options_.top_p < 1.0) {
    const auto edge = static_cast<std::size_t>(lightest_kept(options_, weights, memory.order));
    const double least = weights[edge];
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] < least || (weights[i] == least && i > edge)) weights[i] = 0.0;
    }
  }
  double total = 0.0;
  for (double& weight : weights) {
    if (weight < options_.min_p) weight = 0.0;
    total += weight;
  }
  double remaining = total * uniform();
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0.0) continue;
    chosen = i;
    if (remaining < weights[i]) break;
    remaining -= weights[i];
  }
  return static_cast<std::int64_t>(chosen);
}

Sampled Sampler::sample(std::span<const float> logits, const TokenMask& mask) {
  check(static_cast<std::int64_t>(logits.size()) == vocab_size_ &&
            (mask.allowed.empty() || mask.allowed.size() == logits.size()),
        ErrorCode::kInternal, "sampler: expected {} logits, got {}", vocab_size_, logits.size());
  const kernels::LogitSummary summary = kernels::summarize_logits(logits);
  check(summary.best >= 0 && std::isfinite(logits[static_cast<std::size_t>(summary.best)]),
        ErrorCode::kCorruptData, "sampler: the model's logits are not finite; try --dtype float32");

  std::int64_t token = summary.best;
  const bool masked = !mask.allowed.empty() || !mask.banned.empty();
  const bool greedy = options_.temperature == 0.0;
  if (masked || !keeps_order()) {
    const std::span<float> candidates = adjusted(logits, mask);
    const auto best = std::max_element(candidates.begin(), candidates.end());
    check(*best != kNever, ErrorCode::kInvalidArgument, "sampler: the constraint leaves no token");
    token = greedy ? best - candidates.begin() : draw(candidates);
  } else if (!greedy) {
    token = draw(logits);
  }
  if (!keeps_order()) ++seen_[static_cast<std::int32_t>(token)].generated;
  return {static_cast<std::int32_t>(token),
          static_cast<float>(logits[static_cast<std::size_t>(token)] - summary.log_sum_exp)};
}

}  // namespace grille::engine
