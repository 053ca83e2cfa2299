// MMLU: a model's choices and its accuracy by subject, by group and over all.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "grille/base/progress.h"
#include "grille/evaluate/accuracy.h"
#include "grille/evaluate/mmlu_data.h"
#include "grille/evaluate/mmlu_prompt.h"
#include "grille/models/decoder.h"
#include "grille/text/tokenizer.h"

namespace grille::evaluate {

struct MmluOptions {
  MmluProtocol protocol = MmluProtocol::kLmEval;
  std::int64_t shots = 5;    // the first of the subject's dev questions
  std::int64_t limit = 0;    // only the first test questions of each subject; 0: all
  std::int64_t context = 0;  // most tokens of a prompt; 0: the model's most, and with kHendrycks 2048 of them
};

struct MmluAnswer {
  // log p of " A", " B", " C", " D" after the prompt. kHendrycks: -100 where 100 tokens or more are more
  // probable.
  std::array<double, kMmluChoices> loglikelihoods = {};
  // The likeliest, of equals the first. kSglang: what the most probable next token's text begins with, if
  // that is one of the four letters.
  std::optional<std::size_t> choice;
  std::size_t answer = 0;  // the right one
  std::int64_t shots = 0;  // left in the prompt
  bool truncated = false;  // the prompt's first tokens were cut off

  bool correct() const { return choice == answer; }
};

struct MmluSubjectResult {
  MmluSubjectName subject;
  std::vector<MmluAnswer> answers;  // of the test file's questions, in order
  Accuracy accuracy;
};

struct MmluResult {
  std::vector<MmluSubjectResult> subjects;
  std::map<std::string, Estimate> groups;  // over questions; those groups that have a subject here
  Estimate questions;         // every question counts alike: lm-eval's, the authors' and sglang's number
  Estimate mean_of_subjects;  // every subject counts alike
  bool single_tokens = true;  // each of " A" to " D" is one token after "Answer:"
};

// Prompts that are too long lose tokens from the left (kLmEval), or shots from the end until they fit
// (kHendrycks), or shots until all that precedes the question has at most 1536 of the model's tokens
// (kSglang, which counts with another tokenizer); what is then still too long loses tokens from the left.
//
// Where " A" to " D" are single tokens a question is one sequence, otherwise one for each choice, scored as
// lm-eval does: over all of its tokens, without the -100 of kHendrycks. Sequences of a subject share their
// shots' keys and values. Throws Error{kInvalidArgument} for options out of range and for more shots than a
// subject has.
MmluResult score_mmlu(const models::Decoder& model, const text::Tokenizer& tokenizer,
                      std::span<const MmluSubject> subjects, const MmluOptions& options, Progress& progress);

}  // namespace grille::evaluate
