#include "grille/evaluate/mmlu_prompt.h"

#include <algorithm>
#include <array>

#include "grille/base/error.h"
#include "grille/evaluate/strip.h"

namespace grille::evaluate {
namespace {

constexpr std::array kProtocols = {MmluProtocol::kLmEval, MmluProtocol::kHendrycks, MmluProtocol::kSglang};

// What pandas 2 and later read as missing by default (pandas.io.parsers, STR_NA_VALUES).
constexpr std::array<std::string_view, 19> kMissing = {
    "",     "#N/A", "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A",  "NA",       "NULL", "NaN",     "None",     "n/a",  "nan",  "null"};

std::string cell(MmluProtocol protocol, const std::string& text) {
  const bool missing = std::find(kMissing.begin(), kMissing.end(), text) != kMissing.end();
  return protocol != MmluProtocol::kLmEval && missing ? "nan" : text;
}

}  // namespace

const char* protocol_name(MmluProtocol protocol) {
  switch (protocol) {
    case MmluProtocol::kLmEval: return "lm-eval";
    case MmluProtocol::kHendrycks: return "hendrycks";
    case MmluProtocol::kSglang: return "sglang";
  }
  return "";
}

MmluProtocol protocol_from_name(std::string_view name) {
  for (const MmluProtocol protocol : kProtocols) {
    if (name == protocol_name(protocol)) return protocol;
  }
  fail(ErrorCode::kInvalidArgument, "--protocol {}: expected lm-eval, hendrycks or sglang", name);
}

std::string mmlu_shots(MmluProtocol protocol, const MmluSubjectName& subject,
                       std::span<const MmluQuestion> shots) {
  std::string text = "The following are multiple choice questions (with answers) about ";
  if (protocol == MmluProtocol::kHendrycks) text += ' ';
  for (const char c : std::string_view(subject.name)) text += c == '_' ? ' ' : c;
  text += ".\n\n";
  for (const MmluQuestion& shot : shots) {
    text += mmlu_question(protocol, shot) + " " + static_cast<char>('A' + shot.answer) + "\n\n";
  }
  return text;
}

std::string mmlu_question(MmluProtocol protocol, const MmluQuestion& question) {
  std::string text = protocol == MmluProtocol::kLmEval ? std::string(strip(question.question))
                                                       : cell(protocol, question.question);
  for (std::size_t i = 0; i < kMmluChoices; ++i) {
    text += std::string("\n") + static_cast<char>('A' + i) + ". " + cell(protocol, question.choices[i]);
  }
  return text + "\nAnswer:";
}

}  // namespace grille::evaluate
