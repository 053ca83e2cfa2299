// From a row of logits to what the engine reports of it.
#pragma once

#include <optional>
#include <span>

#include "grille/engine/batch.h"
#include "grille/engine/engine.h"

namespace grille::engine {

struct RowOutcome {
  TokenEvent event;         // of a sampled row: request, token, log-probabilities
  PositionLogprobs prompt;  // of another
  std::optional<Error> error;
};

// Samples, or looks up, the token after the row's. Of the sequence only the sampler and the constraint move,
// so that rows of different sequences may be evaluated at once. What goes wrong is in `error`; nothing
// throws.
RowOutcome evaluate_row(const LogitRow& row, std::span<const float> logits);

}  // namespace grille::engine
