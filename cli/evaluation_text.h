// Options for a text that is tokenized whole and measured on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"
#include "grille/text/tokenizer.h"

namespace grille::cli {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;

struct EvaluationText {
  std::string file;
  std::string format = "plain";
  std::int64_t max_tokens = 0;  // 0: all
};

// Adds --text, --text-format and --max-tokens.
void add_evaluation_text(CLI::App& command, EvaluationText& options, const std::string& description);

std::vector<std::int32_t> read_evaluation_text(const EvaluationText& options,
                                               const text::Tokenizer& tokenizer);

}  // namespace grille::cli
