#include "grille/server/response_writer.h"

#include <algorithm>

namespace grille::server {

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

std::string token_text(std::int32_t token, bool as_id, const text::Tokenizer& tokenizer) {
  if (as_id) return "token_id:" + std::to_string(token);
  return tokenizer.decode({&token, 1});
}

double finite_logprob(float logprob) { return std::max(static_cast<double>(logprob), -9999.0); }

std::int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace grille::server
