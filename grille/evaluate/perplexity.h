// Perplexity of a text under a model.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "grille/base/progress.h"
#include "grille/models/decoder.h"

namespace grille::evaluate {

struct PerplexityOptions {
  std::int64_t context = 2048;  // tokens a window; at least 2, at most the model's context
  std::int64_t stride = 0;      // 0: windows do not overlap
};

struct PerplexityResult {
  double perplexity = 0.0;               // exp(nll_sum / tokens)
  std::optional<double> standard_error;  // of the perplexity, from the spread between windows; needs two
  std::int64_t tokens = 0;               // predictions that were scored
  std::int64_t windows = 0;
  double nll_sum = 0.0;  // nats
};

// Without a stride: consecutive windows of `context` tokens, a last partial one dropped, context - 1
// predictions each (the number of the SparseGPT, Wanda and GPTQ scripts). With one: windows start every
// `stride` tokens and each scores only tokens that no earlier window scored, the last one may be short
// (transformers' sliding-window recipe). Throws Error{kInvalidArgument} when the text is shorter than a
// window or the options do not fit the model.
PerplexityResult perplexity(const models::Decoder& model, const std::vector<std::int32_t>& ids,
                            const PerplexityOptions& options, Progress& progress);

// Each document alone, truncated to the context; documents of fewer than two tokens count nothing.
PerplexityResult document_perplexity(const models::Decoder& model,
                                     const std::vector<std::vector<std::int32_t>>& documents,
                                     const PerplexityOptions& options, Progress& progress);

// log p(ids[i + 1] | ids[0..i]) for i = 0 .. ids - 2, log-sum-exp in fp64.
std::vector<double> token_logprobs(const models::Decoder& model, const std::vector<std::int32_t>& ids);

}  // namespace grille::evaluate
