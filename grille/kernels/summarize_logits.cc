#include "grille/kernels/summarize_logits.h"

#include <cmath>

#include "grille/base/error.h"
#include "grille/kernels/cpu/row_kernels.h"

namespace grille::kernels {

LogitSummary summarize_logits(std::span<const float> logits) {
  check(!logits.empty(), ErrorCode::kInvalidArgument, "summarize_logits: no logits");
  const RowKernels& kernels = row_kernels();
  const auto count = static_cast<std::int64_t>(logits.size());
  LogitSummary summary;
  summary.best = kernels.argmax(logits.data(), count);
  if (summary.best < 0) return summary;
  const float largest = logits[static_cast<std::size_t>(summary.best)];
  summary.log_sum_exp = largest + std::log(kernels.sum_exp(logits.data(), count, largest));
  return summary;
}

}  // namespace grille::kernels
