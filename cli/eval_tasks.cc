// grille eval tasks
#include <filesystem>
#include <iostream>
#include <set>

#include <spdlog/spdlog.h>

#include "cli/evaluation_output.h"
#include "cli/model_options.h"
#include "grille/base/error.h"
#include "grille/evaluate/choice_task.h"

namespace grille::cli {
namespace {

struct TasksCommand {
  ModelOptions model;
  std::vector<std::string> files;
  std::int64_t limit = 0;
  std::string samples;
  evaluate::ChoiceOptions options;
};

struct Task {
  std::string name;
  std::vector<evaluate::ChoiceQuestion> questions;
  evaluate::ChoiceResult result;
};

std::vector<Task> read_tasks(const TasksCommand& command) {
  std::vector<Task> tasks;
  std::set<std::string> names;
  for (const std::string& file : command.files) {
    Task task{std::filesystem::path(file).stem().string(), evaluate::read_choice_questions(file), {}};
    check(names.insert(task.name).second, ErrorCode::kInvalidArgument,
          "--data {}: two files are named {}, which names their results; rename one", file, task.name);
    const auto limit = static_cast<std::size_t>(command.limit);
    if (limit > 0 && task.questions.size() > limit) task.questions.resize(limit);
    tasks.push_back(std::move(task));
  }
  return tasks;
}

std::string samples_jsonl(const std::vector<Task>& tasks) {
  std::string lines;
  for (const Task& task : tasks) {
    for (std::size_t i = 0; i < task.questions.size(); ++i) {
      const evaluate::ChoiceAnswer& answer = task.result.answers[i];
      lines += nlohmann::json{{"task", task.name},
                              {"index", i},
                              {"loglikelihoods", answer.loglikelihoods},
                              {"choice", answer.choice},
                              {"choice_norm", answer.choice_norm},
                              {"answer", task.questions[i].answer}}
                   .dump() +
               "\n";
    }
  }
  return lines;
}

void print(const TasksCommand& command, const std::vector<Task>& tasks) {
  std::cout << fmt::format("{:<36} {:>6} {:>8}\n", "", "n", "acc");
  for (const Task& task : tasks) {
    const auto row = [&](const char* metric, const evaluate::Accuracy& accuracy) {
      return accuracy_row(fmt::format("{} {}", task.name, metric), accuracy.questions, accuracy.mean(),
                          accuracy.standard_error());
    };
    std::cout << row("acc", task.result.accuracy) << row("acc_norm", task.result.normalized);
  }
  std::cout << fmt::format("multiple choice as lm-eval, {}\n", command.model.model);
}

nlohmann::json to_json(const std::vector<Task>& tasks) {
  nlohmann::json object;
  for (const Task& task : tasks) {
    const evaluate::Accuracy& accuracy = task.result.accuracy;
    const evaluate::Accuracy& normalized = task.result.normalized;
    nlohmann::json entry = accuracy_json(accuracy.mean(), accuracy.standard_error(), accuracy.questions);
    const nlohmann::json other =
        accuracy_json(normalized.mean(), normalized.standard_error(), normalized.questions);
    entry["acc_norm"] = other["acc"];
    entry["stderr_norm"] = other["stderr"];
    std::int64_t truncated = 0;
    for (const evaluate::ChoiceAnswer& answer : task.result.answers) truncated += answer.truncated ? 1 : 0;
    entry["truncated"] = truncated;
    if (truncated > 0) {
      spdlog::info("{}: {} questions were longer than the context and lost their first tokens", task.name,
                   truncated);
    }
    object[task.name] = std::move(entry);
  }
  return object;
}

nlohmann::json run(const TasksCommand& command, const CommandContext& context) {
  std::vector<Task> tasks = read_tasks(command);
  std::optional<checkpoint::OutputFile> samples;  // opened now: a path that cannot be written ends this here
  if (!command.samples.empty()) samples.emplace(command.samples);
  const LoadedModel loaded = load_model(command.model, context);
  const text::Tokenizer tokenizer = models::load_tokenizer(loaded.files);
  for (Task& task : tasks) {
    context.progress.start(task.name, static_cast<std::int64_t>(task.questions.size()), "questions");
    task.result = evaluate::score_choices(loaded.decoder, tokenizer, task.questions, command.options,
                                          [&](std::int64_t done) { context.progress.update(done, ""); });
    context.progress.finish();
  }
  if (samples) write_whole(*samples, samples_jsonl(tasks));
  nlohmann::json object = {{"tasks", to_json(tasks)},
                           {"protocol", "lm-eval multiple_choice"},
                           {"model", command.model.model},
                           {"command", context.command_line}};
  if (!context.options.json) print(command, tasks);
  return object;
}

}  // namespace

void add_eval_tasks(CLI::App& eval) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  auto command = std::make_shared<TasksCommand>();
  CLI::App* app = add_command(
      eval, "tasks", "Accuracy on multiple-choice questions of your own or of ARC, HellaSwag, PIQA, ...",
      "grille eval tasks model/ --data arc.jsonl piqa.jsonl --samples out.jsonl",
      [command](const CommandContext& context) { return run(*command, context); }, RunsOn::kCpuOrCuda);
  add_model_options(*app, command->model);
  app->add_option("--data", command->files,
                  "JSONL files of {\"context\", \"choices\", \"answer\"}; a result has its file's name")
      ->required()
      ->check(CLI::ExistingFile);
  app->add_option("--limit", command->limit, "Only the first N questions of each file (default: all)")
      ->check(CLI::Range(std::int64_t{1}, kMost));
  app->add_option("--delimiter", command->options.delimiter, "Between a context and a choice")
      ->capture_default_str();
  app->add_option("--context", command->options.context,
                  "Most tokens of a question with a choice (default: the model's longest)")
      ->check(CLI::Range(std::int64_t{1}, kMost));
  app->add_option(
      "--samples", command->samples,
      "Write a JSON line a question: its choices' log-likelihoods, what was chosen and the answer");
}

}  // namespace grille::cli
