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
  pair.context = tokenizer.encode(stripped);
  check(!pair.context.empty(), ErrorCode::kInvalidArgument, "evaluate: the context has no tokens");
  const std::vector<std::int32_t> ids = tokenizer.encode(whole);
  const std::size_t begin = std::min(pair.context.size(), ids.size());
  pair.continuation.assign(ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end());
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

}  // namespace grille::evaluate
