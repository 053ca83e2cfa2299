// How a question of MMLU is put to a model: three protocols in use, byte for byte.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "grille/evaluate/mmlu_data.h"

namespace grille::evaluate {

enum class MmluProtocol {
  kLmEval,     // lm-evaluation-harness 0.4.13, task mmlu (tasks/mmlu/default)
  kHendrycks,  // the authors' evaluate.py (github hendrycks/test)
  kSglang,     // benchmark/mmlu/bench_sglang.py
};

// "lm-eval", "hendrycks", "sglang".
const char* protocol_name(MmluProtocol protocol);
// Throws Error{kInvalidArgument} for another name.
MmluProtocol protocol_from_name(std::string_view name);

// The header and the shots, each with its answer: all that precedes a question, up to its "\n\n". The
// authors' header has two spaces before the subject. Where pandas would read a cell as missing ("None", "NA",
// ...), the authors' and sglang's prompts say "nan", as theirs do.
std::string mmlu_shots(MmluProtocol protocol, const MmluSubjectName& subject,
                       std::span<const MmluQuestion> shots);

// The question, its choices and "Answer:". lm-eval strips the question of white space, as Python's
// str.strip().
std::string mmlu_question(MmluProtocol protocol, const MmluQuestion& question);

}  // namespace grille::evaluate
