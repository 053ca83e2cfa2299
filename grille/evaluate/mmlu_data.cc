#include "grille/evaluate/mmlu_data.h"

#include <algorithm>
#include <iterator>

#include "grille/base/error.h"
#include "grille/text/csv.h"

namespace grille::evaluate {

namespace fs = std::filesystem;

namespace {

// Groups as in lm-eval 0.4.13, tasks/mmlu/default.
constexpr MmluSubjectName kSubjects[] = {
    {"abstract_algebra", "stem"},
    {"anatomy", "stem"},
    {"astronomy", "stem"},
    {"business_ethics", "other"},
    {"clinical_knowledge", "other"},
    {"college_biology", "stem"},
    {"college_chemistry", "stem"},
    {"college_computer_science", "stem"},
    {"college_mathematics", "stem"},
    {"college_medicine", "other"},
    {"college_physics", "stem"},
    {"computer_security", "stem"},
    {"conceptual_physics", "stem"},
    {"econometrics", "social_sciences"},
    {"electrical_engineering", "stem"},
    {"elementary_mathematics", "stem"},
    {"formal_logic", "humanities"},
    {"global_facts", "other"},
    {"high_school_biology", "stem"},
    {"high_school_chemistry", "stem"},
    {"high_school_computer_science", "stem"},
    {"high_school_european_history", "humanities"},
    {"high_school_geography", "social_sciences"},
    {"high_school_government_and_politics", "social_sciences"},
    {"high_school_macroeconomics", "social_sciences"},
    {"high_school_mathematics", "stem"},
    {"high_school_microeconomics", "social_sciences"},
    {"high_school_physics", "stem"},
    {"high_school_psychology", "social_sciences"},
    {"high_school_statistics", "stem"},
    {"high_school_us_history", "humanities"},
    {"high_school_world_history", "humanities"},
    {"human_aging", "other"},
    {"human_sexuality", "social_sciences"},
    {"international_law", "humanities"},
    {"jurisprudence", "humanities"},
    {"logical_fallacies", "humanities"},
    {"machine_learning", "stem"},
    {"management", "other"},
    {"marketing", "other"},
    {"medical_genetics", "other"},
    {"miscellaneous", "other"},
    {"moral_disputes", "humanities"},
    {"moral_scenarios", "humanities"},
    {"nutrition", "other"},
    {"philosophy", "humanities"},
    {"prehistory", "humanities"},
    {"professional_accounting", "other"},
    {"professional_law", "humanities"},
    {"professional_medicine", "other"},
    {"professional_psychology", "social_sciences"},
    {"public_relations", "social_sciences"},
    {"security_studies", "social_sciences"},
    {"sociology", "social_sciences"},
    {"us_foreign_policy", "social_sciences"},
    {"virology", "other"},
    {"world_religions", "humanities"},
};

std::vector<MmluQuestion> read_questions(const fs::path& file) {
  std::vector<MmluQuestion> questions;
  for (const text::CsvRow& row : text::read_csv(file)) {
    check(row.fields.size() == kMmluChoices + 2, ErrorCode::kCorruptData,
          "{}: line {}: expected a question, four choices and a letter, got {} cells", file.string(),
          row.line, row.fields.size());
    const std::string& letter = row.fields.back();
    check(letter.size() == 1 && letter[0] >= 'A' && letter[0] <= 'D', ErrorCode::kCorruptData,
          "{}: line {}: the right choice is '{}'; expected A, B, C or D", file.string(), row.line, letter);
    MmluQuestion& question = questions.emplace_back();
    question.question = row.fields.front();
    std::copy_n(row.fields.begin() + 1, kMmluChoices, question.choices.begin());
    question.answer = static_cast<std::size_t>(letter[0] - 'A');
  }
  return questions;
}

}  // namespace

std::span<const MmluSubjectName> mmlu_subjects() { return kSubjects; }

std::vector<MmluSubjectName> select_mmlu_subjects(const std::string& names) {
  if (names.empty()) return {std::begin(kSubjects), std::end(kSubjects)};
  std::vector<MmluSubjectName> chosen;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    const auto is_name = [&](const MmluSubjectName& subject) { return subject.name == name; };
    const auto* found = std::find_if(std::begin(kSubjects), std::end(kSubjects), is_name);
    check(found != std::end(kSubjects), ErrorCode::kInvalidArgument,
          "--subjects: '{}' is none of the 57; names are those of the files, as {},{}", name,
          kSubjects[0].name, kSubjects[1].name);
    check(std::none_of(chosen.begin(), chosen.end(), is_name), ErrorCode::kInvalidArgument,
          "--subjects: '{}' comes twice", name);
    chosen.push_back(*found);
    begin = end + 1;
  }
  return chosen;
}

MmluSubject read_mmlu_subject(const fs::path& directory, const MmluSubjectName& subject) {
  for (const char* part : {"dev", "test"}) {
    check(fs::is_directory(directory / part), ErrorCode::kNotFound,
          "{}: it has no folder {}; give the folder with dev/ and test/ of the MMLU authors' data",
          directory.string(), part);
  }
  const std::string name = subject.name;
  const fs::path test = directory / "test" / (name + "_test.csv");
  MmluSubject result{subject, read_questions(directory / "dev" / (name + "_dev.csv")), read_questions(test)};
  check(!result.test.empty(), ErrorCode::kCorruptData, "{}: it has no questions", test.string());
  return result;
}

}  // namespace grille::evaluate
