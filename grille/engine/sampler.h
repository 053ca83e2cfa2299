// From logits to a token.
#pragma once

#include <cstdint>
#include <random>
#include <span>
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
  std::uint64_t seed = 0;
};

// Throws Error{kInvalidArgument} that names the option and its range.
void check_sampling(const SamplingOptions& options);

struct Sampled {
  std::int32_t token = 0;
  float logprob = 0.0f;  // under softmax(logits), before any option was applied
};

// One request's sampler. The same seed and logits give the same tokens on every machine.
// Order, as in transformers: repetition penalty, temperature, top-k, top-p, min-p.
class Sampler {
 public:
  Sampler(const SamplingOptions& options, std::span<const std::int32_t> prompt, std::int64_t vocab_size);
  // logits [vocab_size]. Of equal logits the lowest id wins. Throws Error{kInternal} when a logit is NaN.
  Sampled sample(std::span<const float> logits);

 private:
  double uniform();  // [0, 1)

  SamplingOptions options_;
  std::mt19937_64 random_;
  std::vector<bool> seen_;
  std::vector<float> adjusted_;
  std::vector<std::int32_t> order_;
};

}  // namespace grille::engine
