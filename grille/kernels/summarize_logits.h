// What sampling asks of a row of logits.
#pragma once

#include <cstdint>
#include <span>

namespace grille::kernels {

struct LogitSummary {
  std::int64_t best = 0;     // index of the largest logit, of equal ones the lowest; -1 if one is NaN
  double log_sum_exp = 0.0;  // log(sum of exp(logit)), relative error of the sum below 1e-5
};

// logits: at least one. log_sum_exp is defined if the largest logit is finite; others may be -infinity.
// Throws Error{kInvalidArgument} when there are none. One pass for each result, on the calling thread.
LogitSummary summarize_logits(std::span<const float> logits);

}  // namespace grille::kernels
