#include "grille/engine/batch.h"

#include <algorithm>

namespace grille::engine {
namespace {

void add_rows(Sequence& sequence, std::int64_t first_row, std::int64_t count, std::vector<LogitRow>& rows) {
  const std::int64_t end = sequence.computed + count;
  if (sequence.wants_prompt_logprobs()) {
    const std::int64_t predicting = std::min(end, sequence.prompt_length() - 1);
    for (std::int64_t position = sequence.computed; position < predicting; ++position) {
      rows.push_back({&sequence, first_row + position - sequence.computed, position, false});
    }
  }
  if (end == sequence.length()) rows.push_back({&sequence, first_row + count - 1, end - 1, true});
}

}  // namespace

Batch::Batch(std::span<const ScheduledSequence> plan) {
  for (const auto& [sequence, count] : plan) {
    const auto first_row = static_cast<std::int64_t>(ids.size());
    const auto begin = sequence->tokens.begin() + sequence->computed;
    ids.insert(ids.end(), begin, begin + count);
    for (std::int64_t i = 0; i < count; ++i) positions.push_back(sequence->computed + i);
    spans.push_back({sequence->pages.pages.data(), first_row, sequence->computed, count});
    add_rows(*sequence, first_row, count, rows);
    prompt_tokens += std::clamp<std::int64_t>(sequence->prompt_length() - sequence->computed, 0, count);
    decodes_only = decodes_only && count == 1;
  }
}

}  // namespace grille::engine
