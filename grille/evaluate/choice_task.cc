#include "grille/evaluate/choice_task.h"

#include <algorithm>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/evaluate/loglikelihood.h"
#include "grille/text/bounded_json.h"
#include "grille/text/text_files.h"

namespace grille::evaluate {
namespace {

using nlohmann::json;

// Names the line in what goes wrong with it.
class LineReader {
 public:
  LineReader(const std::filesystem::path& file, std::int64_t number) : file_(file), number_(number) {}

  ChoiceQuestion read(std::string_view line) const {
    const json object = text::parse_bounded(line);
    expect(object.is_object(), "is no JSON object");
    ChoiceQuestion question;
    if (object.contains("contexts")) {
      const std::string continuation = string_at(object, "continuation");
      for (std::string& context : strings_at(object, "contexts")) {
        question.choices.push_back({std::move(context), continuation});
      }
    } else {
      const std::string context = string_at(object, "context");
      for (std::string& text : strings_at(object, "choices")) {
        question.choices.push_back({context, std::move(text)});
      }
    }
    expect(question.choices.size() >= 2, "has fewer than two choices");
    for (const auto& choice : question.choices) expect(!choice.text.empty(), "has a choice without text");
    const auto answer = object.find("answer");
    const bool in_range = answer != object.end() && answer->is_number_unsigned() &&
                          answer->get<std::uint64_t>() < question.choices.size();
    expect(in_range, "needs an \"answer\", the index of a choice from 0");
    question.answer = answer->get<std::size_t>();
    return question;
  }

 private:
  void expect(bool condition, std::string_view what) const {
    check(condition, ErrorCode::kCorruptData, "{}:{}: the question {}", file_.string(), number_, what);
  }

  std::string string_at(const json& object, const char* key) const {
    const auto found = object.find(key);
    expect(found != object.end() && found->is_string(), fmt::format("needs a string \"{}\"", key));
    return found->get<std::string>();
  }

  std::vector<std::string> strings_at(const json& object, const char* key) const {
    const auto found = object.find(key);
    const auto is_string = [](const json& value) { return value.is_string(); };
    expect(found != object.end() && found->is_array() && std::all_of(found->begin(), found->end(), is_string),
           fmt::format("needs a list of strings \"{}\"", key));
    return found->get<std::vector<std::string>>();
  }

  const std::filesystem::path& file_;
  std::int64_t number_;
};

// Of UTF-8 that the tokenizer has accepted.
double code_points(std::string_view text) {
  return static_cast<double>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

template <typename Values>
std::size_t index_of_largest(const Values& values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

std::vector<EncodedPair> encode(const text::Tokenizer& tokenizer, std::span<const ChoiceQuestion> questions,
                                const std::string& delimiter) {
  std::vector<const ChoiceQuestion::Choice*> choices;
  for (const ChoiceQuestion& question : questions) {
    for (const auto& choice : question.choices) choices.push_back(&choice);
  }
  std::vector<EncodedPair> pairs(choices.size());
  parallel_for(static_cast<std::int64_t>(pairs.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      pairs[i] = encode_pair(tokenizer, choices[i]->context, delimiter + choices[i]->text);
    }
  });
  return pairs;
}

}  // namespace

std::vector<ChoiceQuestion> read_choice_questions(const std::filesystem::path& file) {
  std::vector<ChoiceQuestion> questions;
  text::for_each_line(file, [&](std::string_view line, std::int64_t number) {
    questions.push_back(LineReader(file, number).read(line));
  });
  check(!questions.empty(), ErrorCode::kCorruptData, "{}: it has no question", file.string());
  return questions;
}

ChoiceResult score_choices(const models::Decoder& model, const text::Tokenizer& tokenizer,
                           std::span<const ChoiceQuestion> questions, const ChoiceOptions& options,
                           const std::function<void(std::int64_t)>& after) {
  const std::int64_t longest = model.config().max_positions;
  check(options.context >= 0 && options.context <= longest, ErrorCode::kInvalidArgument,
        "--context {}: expected 1 to {}, the model's longest", options.context, longest);
  const std::int64_t most = options.context > 0 ? options.context : longest;
  const std::vector<EncodedPair> pairs = encode(tokenizer, questions, options.delimiter);
  std::vector<std::int64_t> ends;  // of each question's pairs
  std::int64_t end = 0;
  for (const ChoiceQuestion& question : questions) {
    ends.push_back(end += static_cast<std::int64_t>(question.choices.size()));
  }
  const std::vector<Continued> scores = score_pairs(model, pairs, most, [&](std::int64_t done) {
    after(std::upper_bound(ends.begin(), ends.end(), done) - ends.begin());
  });

  ChoiceResult result;
  std::size_t at = 0;
  for (const ChoiceQuestion& question : questions) {
    ChoiceAnswer answer;
    std::vector<double> normalized;
    for (const ChoiceQuestion::Choice& choice : question.choices) {
      const EncodedPair& pair = pairs[at];
      answer.loglikelihoods.push_back(scores[at].loglikelihood);
      normalized.push_back(scores[at].loglikelihood / code_points(choice.text));
      const std::size_t length = pair.context.size() + pair.continuation.size() - 1;
      answer.truncated = answer.truncated || length > static_cast<std::size_t>(most);
      ++at;
    }
    answer.choice = index_of_largest(answer.loglikelihoods);
    answer.choice_norm = index_of_largest(normalized);
    result.accuracy.add(answer.choice == question.answer);
    result.normalized.add(answer.choice_norm == question.answer);
    result.answers.push_back(std::move(answer));
  }
  return result;
}

}  // namespace grille::evaluate
