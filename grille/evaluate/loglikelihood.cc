#include "grille/evaluate/loglikelihood.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "grille/base/error.h"
#include "grille/evaluate/strip.h"
#include "grille/kernels/summarize_logits.h"

namespace grille::evaluate {

Prediction::Prediction(std::span<const float> logits) : logits_(logits) {
  const kernels::LogitSummary summary = kernels::summarize_logits(logits);
  check(summary.best >= 0 && std::isfinite(logits[static_cast<std::size_t>(summary.best)]),
        ErrorCode::kCorruptData, "evaluate: the model's logits are not finite; try --dtype float32");
  best_ = static_cast<std::int32_t>(summary.best);
  log_sum_exp_ = summary.log_sum_exp;
}

std::int64_t Prediction::rank(std::int32_t token) const {
  const float own = logits_[static_cast<std::size_t>(token)];
  return std::count_if(logits_.begin(), logits_.end(), [own](float other) { return other > own; });
}

EncodedPair encode_pair(const text::Tokenizer& tokenizer, std::string_view context,
                        std::string_view continuation) {
  const std::string_view stripped = strip_end(context);
  const std::string whole = std::string(context) + std::string(continuation);
  EncodedPair pair;
  if (!stripped.empty()) pair.context = tokenizer.encode(stripped);
  if (pair.context.empty()) {
    const std::vector<std::int32_t>& ends = tokenizer.eos_ids();
    check(tokenizer.bos_id() || !ends.empty(), ErrorCode::kInvalidArgument,
          "evaluate: an empty context needs a BOS or EOS token, and the tokenizer has neither");
    pair.context = {tokenizer.bos_id() ? *tokenizer.bos_id() : ends.front()};
    pair.continuation = tokenizer.encode(whole, /*add_special_tokens=*/false);
    // A text that begins with that token does not get it twice.
    if (!pair.continuation.empty() && pair.continuation.front() == pair.context.front()) {
      pair.continuation.erase(pair.continuation.begin());
    }
  } else {
    const std::vector<std::int32_t> ids = tokenizer.encode(whole);
    const std::size_t begin = std::min(pair.context.size(), ids.size());
    pair.continuation.assign(ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end());
  }
  check(!pair.continuation.empty(), ErrorCode::kInvalidArgument,
        "evaluate: the continuation '{}' adds no token to its context", continuation);
  return pair;
}

Passage passage_of(const EncodedPair& pair, std::int64_t most) {
  const auto length = static_cast<std::int64_t>(pair.continuation.size());
  check(length <= most, ErrorCode::kInvalidArgument,
        "evaluate: a continuation of {} tokens is longer than the context of {}", length, most);
  Passage passage;
  passage.ids = pair.context;
  passage.ids.insert(passage.ids.end(), pair.continuation.begin(), pair.continuation.end() - 1);
  const auto size = static_cast<std::int64_t>(passage.ids.size());
  if (size > most) passage.ids.erase(passage.ids.begin(), passage.ids.begin() + (size - most));
  passage.first = static_cast<std::int64_t>(passage.ids.size()) - length;
  return passage;
}

std::vector<Loglikelihood> loglikelihoods(const models::Decoder& model, std::span<const EncodedPair> pairs,
                                          std::int64_t most, const std::function<void(std::int64_t)>& after) {
  struct TokenScore {
    double logprob;
    bool greedy;
  };
  std::vector<Passage> passages;
  std::vector<std::vector<TokenScore>> scores;  // of each pair's tokens: positions are read in any order
  for (const EncodedPair& pair : pairs) {
    passages.push_back(passage_of(pair, most));
    scores.emplace_back(pair.continuation.size());
  }
  for_each_prediction(
      model, passages,
      [&](std::size_t i, std::int64_t position, std::span<const float> logits) {
        const auto at = static_cast<std::size_t>(position - passages[i].first);
        const std::int32_t token = pairs[i].continuation[at];
        const Prediction prediction(logits);
        scores[i][at] = {prediction.logprob(token), prediction.best() == token};
      },
      after);
  std::vector<Loglikelihood> result(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (const TokenScore& score : scores[i]) {
      result[i].value += score.logprob;
      result[i].greedy = result[i].greedy && score.greedy;
    }
  }
  return result;
}

}  // namespace grille::evaluate
