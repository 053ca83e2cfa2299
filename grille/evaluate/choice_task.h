// Multiple-choice questions scored by log-likelihood, as lm-eval 0.4.13 scores tasks of output_type
// multiple_choice (api/task.py): ARC, HellaSwag, PIQA, Winogrande and the like.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "grille/evaluate/accuracy.h"
#include "grille/models/decoder.h"
#include "grille/text/tokenizer.h"

namespace grille::evaluate {

struct ChoiceQuestion {
  struct Choice {
    std::string context;
    std::string text;  // scored after the context
  };
  std::vector<Choice> choices;  // two or more
  std::size_t answer = 0;       // index of the right one
};

// One JSON object a line, blank lines skipped; other keys are ignored:
//   {"context": "...", "choices": ["...", "..."], "answer": 0}
// or, for Winogrande, whose options stand inside the sentence, one text after several contexts:
//   {"contexts": ["...", "..."], "continuation": "...", "answer": 1}
// Throws Error{kNotFound}; Error{kCorruptData} with file and line for a line that is not such, for fewer than
// two choices, an empty text, or an answer that is none of them.
std::vector<ChoiceQuestion> read_choice_questions(const std::filesystem::path& file);

struct ChoiceOptions {
  std::string delimiter = " ";  // between context and text
  std::int64_t context = 0;     // most tokens of a sequence; 0: the model's most
};

struct ChoiceAnswer {
  std::vector<double> loglikelihoods;  // of the choices, in nats
  std::size_t choice = 0;              // the likeliest, of equals the first
  std::size_t choice_norm = 0;         // the likeliest a character of its text
  bool truncated = false;              // a context lost its first tokens
};

struct ChoiceResult {
  std::vector<ChoiceAnswer> answers;
  Accuracy accuracy;    // of `choice`: lm-eval's acc
  Accuracy normalized;  // of `choice_norm`: lm-eval's acc_norm; characters are Unicode code points
};

// Sequences that begin alike share their keys and values. `after(questions)` is called with the number that
// are done. Throws Error{kInvalidArgument} for a context out of range or a text longer than it.
ChoiceResult score_choices(const models::Decoder& model, const text::Tokenizer& tokenizer,
                           std::span<const ChoiceQuestion> questions, const ChoiceOptions& options,
                           const std::function<void(std::int64_t questions)>& after);

}  // namespace grille::evaluate
