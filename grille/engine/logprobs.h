// Log-probabilities of tokens under the model's own distribution.
#pragma once

#include <span>
#include <vector>

#include "grille/engine/engine.h"

namespace grille::engine {

// The `count` most probable tokens in falling order; of equal ones the lower id comes first.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, std::int64_t count);

// That token and the `count` most probable ones. Throws Error{kCorruptData} when the logits are not finite.
PositionLogprobs position_logprobs(std::span<const float> logits, std::int32_t token, std::int64_t count);

}  // namespace grille::engine
