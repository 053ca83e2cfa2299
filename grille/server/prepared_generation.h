// From a parsed request to what the engine is asked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grille/engine/engine.h"
#include "grille/server/generation_request.h"

namespace grille::server {

struct PreparedPrompt {
  std::vector<std::int32_t> ids;
  std::string text;  // set only for echo
};

struct PreparedGeneration {
  bool chat = false;
  GenerationRequest request;
  bool echo = false;
  bool prompt_only = false;  // echo with max_tokens 0: what is generated is not shown
  std::vector<PreparedPrompt> prompts;
  std::vector<engine::Request> requests;  // one a choice; choice i belongs to prompt i / request.n

  std::size_t choices() const { return prompts.size() * static_cast<std::size_t>(request.n); }
};

// Tokenizing costs about a second for 2 MB of text: keep it off threads that serve others. Throw ApiError.
PreparedGeneration prepare_completion(CompletionRequest request, const ServedModel& model,
                                      const GenerationLimits& limits);
PreparedGeneration prepare_chat(ChatRequest request, const ServedModel& model,
                                const GenerationLimits& limits);

// A conversation as the model's template writes it. Throws ApiError.
std::string render_chat(const Json& messages, const Json& variables, bool add_generation_prompt,
                        const ServedModel& model);

// Ids of a text. Throws ApiError.
std::vector<std::int32_t> encode_text(std::string_view text, bool add_special_tokens,
                                      const ServedModel& model);

}  // namespace grille::server
