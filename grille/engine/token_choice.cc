#include "grille/engine/token_choice.h"

#include <vector>

#include "grille/engine/logprobs.h"

namespace grille::engine {
namespace {

TokenEvent sample(Sequence& sequence, std::span<const float> logits) {
  const Request& request = sequence.request;
  TokenMask mask;
  thread_local std::vector<std::uint8_t> allowed;
  if (request.constraint) {
    allowed.assign(logits.size(), 0);
    request.constraint->allowed_tokens(allowed);
    mask.allowed = allowed;
  }
  if (sequence.generated() < request.min_tokens) mask.banned = request.stop_tokens;
  const Sampled sampled = sequence.sampler.sample(logits, mask);
  if (request.constraint) request.constraint->accept(sampled.token);
  TokenEvent event;
  event.request = sequence.id;
  event.token = sampled.token;
  event.logprob = sampled.logprob;
  event.top = top_logprobs(logits, request.top_logprobs);
  return event;
}

}  // namespace

RowOutcome evaluate_row(const LogitRow& row, std::span<const float> logits) {
  RowOutcome outcome;
  Sequence& sequence = *row.sequence;
  try {
    if (row.sampled) {
      outcome.event = sample(sequence, logits);
    } else {
      outcome.prompt = position_logprobs(logits, sequence.tokens[static_cast<std::size_t>(row.position + 1)],
                                         sequence.request.top_logprobs);
    }
  } catch (const Error& error) {
    outcome.error = error;
  } catch (const std::exception& error) {
    outcome.error = Error(ErrorCode::kInternal, error.what());
  }
  return outcome;
}

}  // namespace grille::engine
