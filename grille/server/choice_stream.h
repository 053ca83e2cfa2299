// One choice of an answer: tokens in, pieces of text and log-probabilities out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "grille/engine/engine.h"
#include "grille/engine/text_generator.h"
#include "grille/server/prepared_generation.h"
#include "grille/text/detokenizer.h"

namespace grille::server {

struct LogprobEntry {
  std::int32_t token = 0;
  std::optional<float> logprob;  // absent for a prompt's first token, which nothing predicts
  std::vector<engine::TokenLogprob> top;
};

// What one token, or several together, add to a choice.
struct ChoiceDelta {
  std::string text;  // whole characters that no stop string can still take back
  std::vector<LogprobEntry> logprobs;
  std::string finish_reason;  // "stop" or "length" with the last one
  Json stop_reason;           // the stop string or the stop token's id that ended it, or null

  bool finished() const { return !finish_reason.empty(); }
  bool empty() const { return text.empty() && logprobs.empty() && !finished(); }
  void append(ChoiceDelta other);
};

class ChoiceStream {
 public:
  // `prepared` and `model` must outlive this. `index` counts choices over all prompts.
  ChoiceStream(const PreparedGeneration& prepared, std::size_t index, const ServedModel& model);

  // Tokens after the choice has finished add nothing.
  ChoiceDelta push(const engine::TokenEvent& event);

  bool finished() const { return finished_; }
  std::int64_t completion_tokens() const { return completion_tokens_; }
  const PreparedPrompt& prompt() const { return prompt_; }

 private:
  void add_prompt(const engine::TokenEvent& event, ChoiceDelta& delta) const;
  void add_text(const engine::TokenEvent& event, ChoiceDelta& delta);
  void finish(const engine::TokenEvent& event, ChoiceDelta& delta);

  const PreparedGeneration& prepared_;
  const PreparedPrompt& prompt_;
  const ServedModel& model_;
  text::Detokenizer detokenizer_;
  engine::StopMatcher matcher_;
  std::int64_t completion_tokens_ = 0;
  bool started_ = false;
  bool finished_ = false;
};

}  // namespace grille::server
