#include "grille/evaluate/loglikelihood.h"

#include <algorithm>
#include <cmath>
#include <optional>
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

namespace {

std::int32_t prefix_token(const text::Tokenizer& tokenizer) {
  if (const std::optional<std::int32_t> bos = tokenizer.bos_id()) return *bos;
  check(!tokenizer.eos_ids().empty(), ErrorCode::kInvalidArgument,
        "evaluate: the context is empty and the tokenizer has no BOS or EOS to stand for it");
  return tokenizer.eos_ids().front();
}

EncodedPair encode_alone(const text::Tokenizer& tokenizer, std::string_view continuation) {
  EncodedPair pair{{prefix_token(tokenizer)}, tokenizer.encode(continuation)};
  if (!pair.continuation.empty() && pair.continuation.front() == pair.context.front()) {
    pair.continuation.erase(pair.continuation.begin());  // the tokenizer had put it there
  }
  return pair;
}

EncodedPair encode_together(const text::Tokenizer& tokenizer, std::string_view context,
                            std::string_view continuation) {
  EncodedPair pair;
  pair.context = tokenizer.encode(strip_end(context));
  check(!pair.context.empty(), ErrorCode::kInvalidArgument, "evaluate: the context has no tokens");
  const std::vector<std::int32_t> ids = tokenizer.encode(std::string(context) + std::string(continuation));
  const std::size_t begin = std::min(pair.context.size(), ids.size());
  pair.continuation.assign(ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end());
  return pair;
}

}  // namespace

EncodedPair encode_pair(const text::Tokenizer& tokenizer, std::string_view context,
                        std::string_view continuation) {
  EncodedPair pair = context.empty() ? encode_alone(tokenizer, continuation)
                                     : encode_together(tokenizer, context, continuation);
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

std::vector<Continued> score_pairs(const models::Decoder& model, std::span<const EncodedPair> pairs,
                                   std::int64_t most, const std::function<void(std::int64_t)>& after) {
  std::vector<Passage> passages;
  std::vector<std::vector<double>> logprobs;  // of each pair's tokens: they come in no order
  passages.reserve(pairs.size());
  logprobs.reserve(pairs.size());
  for (const EncodedPair& pair : pairs) {
    passages.push_back(passage_of(pair, most));
    logprobs.emplace_back(pair.continuation.size());
  }
  std::vector<Continued> result(pairs.size());
  for_each_prediction(
      model, passages,
      [&](std::size_t i, std::int64_t position, std::span<const float> logits) {
        const Prediction prediction(logits);
        const auto at = static_cast<std::size_t>(position - passages[i].first);
        logprobs[i][at] = prediction.logprob(pairs[i].continuation[at]);
        if (at == 0) result[i].best_first = prediction.best();
      },
      after);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (const double logprob : logprobs[i]) result[i].loglikelihood += logprob;
  }
  return result;
}

}  // namespace grille::evaluate
