// grille eval mmlu
#include <algorithm>
#include <iostream>

#include <spdlog/spdlog.h>

#include "cli/evaluation_output.h"
#include "cli/model_options.h"
#include "grille/base/error.h"
#include "grille/evaluate/mmlu.h"

namespace grille::cli {
namespace {

struct MmluCommand {
  ModelOptions model;
  std::string data;
  std::string subjects;
  std::string protocol = "lm-eval";
  std::string samples;
  evaluate::MmluOptions options;
};

using evaluate::MmluAnswer;
using evaluate::MmluResult;
using evaluate::MmluSubjectResult;

nlohmann::json letter(std::optional<std::size_t> choice) {
  return choice ? nlohmann::json(std::string(1, static_cast<char>('A' + *choice))) : nlohmann::json(nullptr);
}

std::int64_t questions_of(const MmluResult& result, const std::string& group = "") {
  std::int64_t questions = 0;
  for (const MmluSubjectResult& subject : result.subjects) {
    if (group.empty() || group == subject.subject.group) questions += subject.accuracy.questions;
  }
  return questions;
}

std::int64_t count_answers(const MmluResult& result, const auto& condition) {
  std::int64_t count = 0;
  for (const MmluSubjectResult& subject : result.subjects) {
    count += std::count_if(subject.answers.begin(), subject.answers.end(), condition);
  }
  return count;
}

std::string samples_jsonl(const MmluResult& result) {
  std::string lines;
  for (const MmluSubjectResult& subject : result.subjects) {
    for (std::size_t i = 0; i < subject.answers.size(); ++i) {
      const MmluAnswer& answer = subject.answers[i];
      lines += nlohmann::json{{"subject", subject.subject.name},
                              {"index", i},
                              {"loglikelihoods", answer.loglikelihoods},
                              {"choice", letter(answer.choice)},
                              {"answer", letter(answer.answer)}}
                   .dump() +
               "\n";
    }
  }
  return lines;
}

void print(const MmluCommand& command, const MmluResult& result) {
  std::cout << fmt::format("{:<36} {:>6} {:>8}\n", "", "n", "acc");
  for (const MmluSubjectResult& subject : result.subjects) {
    const evaluate::Accuracy& accuracy = subject.accuracy;
    std::cout << accuracy_row(subject.subject.name, accuracy.questions, accuracy.mean(),
                              accuracy.standard_error());
  }
  for (const auto& [name, estimate] : result.groups) {
    std::cout << accuracy_row("group " + name, questions_of(result, name), estimate.mean,
                              estimate.standard_error);
  }
  const std::int64_t questions = questions_of(result);
  std::cout << accuracy_row("mean of subjects", questions, result.mean_of_subjects.mean,
                            result.mean_of_subjects.standard_error)
            << accuracy_row("mean of questions", questions, result.questions.mean,
                            result.questions.standard_error)
            << fmt::format("mmlu, {} shots, protocol {}, {}\n", command.options.shots, command.protocol,
                           command.model.model);
}

nlohmann::json to_json(const MmluCommand& command, const MmluResult& result) {
  const std::int64_t questions = questions_of(result);
  nlohmann::json object = accuracy_json(result.questions.mean, result.questions.standard_error, questions);
  const nlohmann::json subjects =
      accuracy_json(result.mean_of_subjects.mean, result.mean_of_subjects.standard_error, 0);
  object["acc_mean_of_subjects"] = subjects["acc"];
  object["stderr_mean_of_subjects"] = subjects["stderr"];
  for (const auto& [name, estimate] : result.groups) {
    object["groups"][name] =
        accuracy_json(estimate.mean, estimate.standard_error, questions_of(result, name));
  }
  for (const MmluSubjectResult& subject : result.subjects) {
    const evaluate::Accuracy& accuracy = subject.accuracy;
    object["subjects"][subject.subject.name] =
        accuracy_json(accuracy.mean(), accuracy.standard_error(), accuracy.questions);
    object["subjects"][subject.subject.name]["group"] = subject.subject.group;
  }
  object["protocol"] = command.protocol;
  object["shots"] = command.options.shots;
  object["single_tokens"] = result.single_tokens;
  return object;
}

void note_changed_prompts(const MmluCommand& command, const MmluResult& result, nlohmann::json& object) {
  const std::int64_t truncated =
      count_answers(result, [](const MmluAnswer& answer) { return answer.truncated; });
  const std::int64_t fewer =
      count_answers(result, [&](const MmluAnswer& answer) { return answer.shots < command.options.shots; });
  object["truncated"] = truncated;
  object["fewer_shots"] = fewer;
  if (truncated > 0)
    spdlog::info("{} prompts were longer than the context and lost their first tokens", truncated);
  if (fewer > 0)
    spdlog::info("{} prompts have fewer than {} shots, to be short enough", fewer, command.options.shots);
  if (!result.single_tokens) {
    spdlog::info("' A' to ' D' are no single tokens of this tokenizer: four sequences a question");
  }
}

nlohmann::json run(const MmluCommand& command, const CommandContext& context) {
  evaluate::MmluOptions options = command.options;
  options.protocol = evaluate::protocol_from_name(command.protocol);
  std::vector<evaluate::MmluSubject> subjects;
  for (const evaluate::MmluSubjectName& name : evaluate::select_mmlu_subjects(command.subjects)) {
    subjects.push_back(evaluate::read_mmlu_subject(command.data, name));
  }
  std::optional<checkpoint::OutputFile> samples;  // opened now: a path that cannot be written ends this here
  if (!command.samples.empty()) samples.emplace(command.samples);
  const LoadedModel loaded = load_model(command.model, context);
  const text::Tokenizer tokenizer = models::load_tokenizer(loaded.files);
  const MmluResult result =
      evaluate::score_mmlu(loaded.decoder, tokenizer, subjects, options, context.progress);
  if (samples) write_whole(*samples, samples_jsonl(result));
  nlohmann::json object = to_json(command, result);
  object["model"] = command.model.model;
  object["command"] = context.command_line;
  note_changed_prompts(command, result, object);
  if (!context.options.json) print(command, result);
  return object;
}

}  // namespace

void add_eval_mmlu(CLI::App& eval) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  auto command = std::make_shared<MmluCommand>();
  CLI::App* app = add_command(
      eval, "mmlu", "Accuracy on MMLU's multiple-choice questions",
      "grille eval mmlu model/ --data mmlu/ --subjects anatomy,astronomy --samples out.jsonl",
      [command](const CommandContext& context) { return run(*command, context); }, RunsOn::kCpuOrCuda);
  add_model_options(*app, command->model);
  app->add_option("--data", command->data, "The folder with the authors' dev/ and test/ CSV files")
      ->required()
      ->check(CLI::ExistingDirectory);
  app->add_option("--subjects", command->subjects,
                  "Comma-separated names, as abstract_algebra (default: all 57)");
  app->add_option("--shots", command->options.shots, "Questions with answers before each question")
      ->check(CLI::Range(std::int64_t{0}, kMost))
      ->capture_default_str();
  app->add_option("--limit", command->options.limit,
                  "Only the first N questions of each subject (default: all)")
      ->check(CLI::Range(std::int64_t{1}, kMost));
  app->add_option(
         "--protocol", command->protocol,
         "Prompts, truncation and choice as lm-eval's task mmlu, the authors' (hendrycks) or sglang's")
      ->check(CLI::IsMember({"lm-eval", "hendrycks", "sglang"}))
      ->capture_default_str();
  app->add_option("--context", command->options.context,
                  "Most tokens of a prompt (default: the model's longest; hendrycks: 2048)")
      ->check(CLI::Range(std::int64_t{1}, kMost));
  app->add_option("--samples", command->samples,
                  "Write a JSON line a question: its four log-likelihoods, the choice and the answer");
}

}  // namespace grille::cli
