// A completion or chat request, parsed and checked: what both APIs have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "grille/engine/sampler.h"
#include "grille/server/json_fields.h"
#include "grille/server/served_model.h"

namespace grille::server {

struct GenerationLimits {
  std::int64_t max_choices = 256;  // prompts times n in one request
  std::int64_t max_tokens = 0;     // most tokens that a request may ask for; 0: what the context holds
};

struct GenerationRequest {
  std::string model;
  engine::SamplingOptions sampling;  // its seed is set where requests are made
  std::optional<std::uint64_t> seed;
  std::int64_t n = 1;
  std::optional<std::int64_t> max_tokens;
  std::int64_t min_tokens = 0;
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_token_ids;
  bool include_stop = false;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool logprobs = false;
  std::int64_t top_logprobs = 0;
  bool tokens_as_ids = false;  // "token_id:17" in place of a token's text
  std::optional<std::int64_t> truncate_prompt_tokens;
  bool add_special_tokens = true;
  std::vector<std::string> unknown_fields;
};

// Text, or token ids.
using PromptInput = std::variant<std::string, std::vector<std::int32_t>>;

struct CompletionRequest {
  GenerationRequest generation;
  std::vector<PromptInput> prompts;
  bool echo = false;
};

struct ChatRequest {
  GenerationRequest generation;
  Json messages;   // contents are strings
  Json variables;  // of the chat template
  bool add_generation_prompt = true;
};

// Throw ApiError that names the field.
CompletionRequest parse_completion(const Json& body, const ServedModel& model,
                                   const GenerationLimits& limits);
ChatRequest parse_chat(const Json& body, const ServedModel& model, const GenerationLimits& limits);

// The fields of both. Used by the two above.
GenerationRequest read_generation(JsonFields& fields, const ServedModel& model);

// Where a conversation is read from: checks roles and contents, and joins parts of text to one string.
Json read_messages(JsonFields& fields);

// Reads `model`; an ApiError with status 404 where it is not a served name.
std::string read_model(JsonFields& fields, const ServedModel& model);

}  // namespace grille::server
