// What the server knows about its model; nothing in it changes while it serves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "grille/text/chat_template.h"
#include "grille/text/tokenizer.h"

namespace grille::server {

// What a request that leaves them out gets (generation_config.json).
struct SamplingDefaults {
  double temperature = 1.0;
  double top_p = 1.0;
  std::int64_t top_k = 0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
};

struct ServedModel {
  std::vector<std::string> names;  // at least one; the first is what answers carry
  text::Tokenizer tokenizer;
  std::optional<text::ChatTemplate> chat_template;
  std::int64_t vocab_size = 0;     // of the model's head: ids are below it
  std::int64_t max_positions = 0;  // longest sequence, prompt and output together
  SamplingDefaults defaults;
  std::string card = "{}";   // a JSON object about sizes and formats, for the web page
  std::int64_t created = 0;  // seconds since 1970
};

// Reads generation_config.json's contents. What it lacks keeps its default. Throws Error{kCorruptData}.
SamplingDefaults sampling_defaults(const std::string& generation_config);

}  // namespace grille::server
