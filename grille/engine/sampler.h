// From logits to a token.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace grille::engine {

// Defaults change nothing: temperature 0 is greedy.
struct SamplingOptions {
  double temperature = 0.0;
  std::int64_t top_k = 0;  // keep the k most probable; 0: all
  double top_p = 1.0;      // keep the fewest tokens whose probability reaches p
  double min_p = 0.0;      // drop tokens below min_p times the highest probability
  double repetition_penalty =
      1.0;  // > 1: tokens of the prompt and the output become less likely (CTRL, arXiv 1909.05858)
  double frequency_penalty =
      0.0;  // from -2 to 2: subtracted from a token's logit as often as it was generated
  double presence_penalty = 0.0;  // from -2 to 2: subtracted once from the logit of what was generated
  std::vector<std::pair<std::int32_t, float>> logit_bias;  // token -> added to its logit, from -100 to 100
  std::uint64_t seed = 0;
};

// Throws Error{kInvalidArgument} that names the option and its range.
void check_sampling(const SamplingOptions& options);

struct Sampled {
  std::int32_t token = 0;
  float logprob = 0.0f;  // under softmax(logits), before any option was applied
};

// Which tokens may not come.
struct TokenMask {
  std::span<const std::uint8_t> allowed;  // [vocab_size], 0: not allowed; empty: all are
  std::span<const std::int32_t> banned;   // not allowed either, unless `allowed` leaves no others
};

// One request's sampler. The same seed and logits give the same tokens on every machine, whatever else runs.
// Order, as in vLLM: logit bias, repetition, frequency and presence penalty, mask, temperature, top-k, top-p,
// min-p.
class Sampler {
 public:
  // Throws as check_sampling, and where the bias names a token outside the vocabulary.
  Sampler(const SamplingOptions& options, std::span<const std::int32_t> prompt, std::int64_t vocab_size);
  // logits [vocab_size]. Of equal logits the lowest id wins. Throws Error{kCorruptData} when a logit is NaN
  // or the largest is infinite, Error{kInvalidArgument} when the mask leaves no token; nothing is drawn then.
  Sampled sample(std::span<const float> logits, const TokenMask& mask = {});

 private:
  struct Seen {
    bool in_prompt = false;
    std::int32_t generated = 0;  // how often
  };

  bool keeps_order() const;
  std::span<float> adjusted(std::span<const float> logits, const TokenMask& mask) const;
  std::int64_t draw(std::span<const float> logits);
  double uniform();  // [0, 1)

  SamplingOptions options_;
  std::mt19937_64 random_;
  std::unordered_map<std::int32_t, Seen> seen_;
  std::int64_t vocab_size_;
};

}  // namespace grille::engine
