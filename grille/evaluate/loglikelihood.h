// What log-likelihoods of continuations are made of, as in lm-eval 0.4.13 (api/model.py,
// models/huggingface.py).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "grille/evaluate/passages.h"
#include "grille/text/tokenizer.h"

namespace grille::evaluate {

// What a model predicts after one token. `logits` must outlive it.
class Prediction {
 public:
  // Throws Error{kCorruptData} where the logits are not finite.
  explicit Prediction(std::span<const float> logits);
  std::int32_t best() const { return best_; }  // of equal ones the lowest id
  double logprob(std::int32_t token) const { return logits_[static_cast<std::size_t>(token)] - log_sum_exp_; }
  // How many tokens are more probable.
  std::int64_t rank(std::int32_t token) const;

 private:
  std::span<const float> logits_;
  std::int32_t best_;
  double log_sum_exp_;
};

struct EncodedPair {
  std::vector<std::int32_t> context;       // at least one token
  std::vector<std::int32_t> continuation;  // at least one
};

// The context's trailing white space goes to the continuation; both are encoded together, with the special
// tokens that the tokenizer adds, and what follows the context's own number of tokens is the continuation.
// An empty context is the model's BOS, or its EOS where there is no BOS. Throws Error{kInvalidArgument} where
// either has no tokens.
EncodedPair encode_pair(const text::Tokenizer& tokenizer, std::string_view context,
                        std::string_view continuation);

// The tokens that predict the continuation, as many of the context's last ones as `most` has room for. Throws
// Error{kInvalidArgument} for a continuation of more than `most` tokens.
Passage passage_of(const EncodedPair& pair, std::int64_t most);

struct Continued {
  double loglikelihood = 0.0;    // log p(continuation | context), in nats
  std::int32_t best_first = -1;  // the most probable token after the context
};

// Of each pair, in their order; contexts longer than `most` lose their first tokens. `after(pairs)` is called
// with the number that are done. Throws as passage_of and for_each_prediction do.
std::vector<Continued> score_pairs(
    const models::Decoder& model, std::span<const EncodedPair> pairs, std::int64_t most,
    const std::function<void(std::int64_t pairs)>& after = [](std::int64_t) {});

}  // namespace grille::evaluate
