// Text in, text out, over any Engine: detokenising as tokens come, stop strings, timing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "grille/engine/engine.h"
#include "grille/text/tokenizer.h"

namespace grille::engine {

struct GenerationOptions {
  SamplingOptions sampling;
  std::int64_t max_tokens = 256;
  std::vector<std::string> stop;  // text that ends the generation; it is not part of the result
};

struct Generation {
  std::string text;
  std::vector<std::int32_t> token_ids;
  std::string finish_reason;  // "stop" or "length"
  double prompt_seconds = 0.0;
  double decode_seconds = 0.0;  // of all tokens after the first
  std::int64_t prompt_tokens = 0;
};

// Called with pieces of text that are final: whole characters that no stop string can still take back.
using TextCallback = std::function<void(std::string_view piece)>;

// Runs one request to its end. Raising the interrupt flag ends it with Error{kCancelled}.
Generation generate(Engine& engine, const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt,
                    const GenerationOptions& options, const TextCallback& on_text = {});

// A prompt's ids: as plain text (BOS where the model wants one), or as a conversation through the model's
// chat template, ready for the assistant's answer. messages: [{"role": ..., "content": ...}, ...].
std::vector<std::int32_t> encode_prompt(const text::Tokenizer& tokenizer, const std::string& prompt);
std::vector<std::int32_t> encode_chat(const text::Tokenizer& tokenizer,
                                      const nlohmann::ordered_json& messages);

// Holds text back while it could still be the beginning of a stop string.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  // Adds text and returns what is safe to show now.
  std::string push(std::string_view text);
  // What was held back, when no stop string came.
  std::string flush();
  bool stopped() const { return matched_.has_value(); }
  // Which stop string came: the one that begins first, of those the first given.
  const std::string& matched() const { return stops_[*matched_]; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::size_t> matched_;
};

}  // namespace grille::engine
