// The inputs of one step, as the model takes them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grille/engine/scheduler.h"
#include "grille/formats/paged_kv.h"

namespace grille::engine {

// A token whose logits are wanted.
struct LogitRow {
  Sequence* sequence = nullptr;
  std::int64_t row = 0;       // of the step's tokens
  std::int64_t position = 0;  // in the sequence
  bool sampled = false;  // the last token: the next one is drawn; otherwise the next one is in the prompt
};

struct Batch {
  // The sequences must not change while the batch is used: spans point to their pages.
  explicit Batch(std::span<const ScheduledSequence> plan);

  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> positions;
  std::vector<formats::SequenceSpan> spans;
  std::vector<LogitRow> rows;      // a sequence's follow each other, in order of position
  std::int64_t prompt_tokens = 0;  // of the step's tokens, those that belong to prompts
  bool decodes_only = true;        // one token of each sequence
};

}  // namespace grille::engine
