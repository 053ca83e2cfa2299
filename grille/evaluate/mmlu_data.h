// The questions of MMLU (Hendrycks et al., arXiv 2009.03300) as the authors' tree of CSV files holds them.
#pragma once

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace grille::evaluate {

constexpr std::size_t kMmluChoices = 4;

struct MmluQuestion {
  std::string question;
  std::array<std::string, kMmluChoices> choices;
  std::size_t answer = 0;  // index of the right choice
};

struct MmluSubjectName {
  const char* name;   // as in the files' names: "abstract_algebra"
  const char* group;  // lm-eval's: "stem", "humanities", "social_sciences", "other"
};

// All 57, in alphabetical order.
std::span<const MmluSubjectName> mmlu_subjects();

// The subjects of a comma-separated list, in its order; of an empty one all. Throws Error{kInvalidArgument}
// for an unknown name or one that comes twice.
std::vector<MmluSubjectName> select_mmlu_subjects(const std::string& names);

struct MmluSubject {
  MmluSubjectName subject;
  std::vector<MmluQuestion> dev;   // the first few are the shots
  std::vector<MmluQuestion> test;  // at least one
};

// From <directory>/dev/<name>_dev.csv and <directory>/test/<name>_test.csv: rows of question, four choices
// and the right one's letter, without a header; cells as they are. Throws Error{kNotFound} for a file that is
// missing, Error{kCorruptData} with file and line for a row that is not such.
MmluSubject read_mmlu_subject(const std::filesystem::path& directory, const MmluSubjectName& subject);

}  // namespace grille::evaluate
