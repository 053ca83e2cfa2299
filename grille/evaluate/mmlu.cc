#include "grille/evaluate/mmlu.h"

#include <algorithm>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/evaluate/loglikelihood.h"
#include "grille/evaluate/strip.h"

namespace grille::evaluate {
namespace {

constexpr std::int64_t kHendrycksContext = 2048;  // crop.py
constexpr std::int64_t kSglangShotTokens = 1536;
constexpr std::int64_t kHendrycksTop = 100;
constexpr double kHendrycksAbsent = -100.0;

std::string spaced_letter(std::size_t choice) { return std::string(" ") + static_cast<char>('A' + choice); }

struct Prompt {
  std::string text;
  std::vector<std::int32_t> ids;
  std::int64_t shots = 0;
};

class Scorer {
 public:
  Scorer(const models::Decoder& model, const text::Tokenizer& tokenizer, const MmluOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options) {
    const std::int64_t most = model.config().max_positions;
    check(options.context >= 0 && options.context <= most, ErrorCode::kInvalidArgument,
          "--context {}: expected 1 to {}, the model's longest", options.context, most);
    check(options.shots >= 0 && options.limit >= 0, ErrorCode::kInvalidArgument,
          "--shots {}, --limit {}: expected none below 0", options.shots, options.limit);
    if (options_.context == 0) {
      options_.context =
          options.protocol == MmluProtocol::kHendrycks ? std::min(most, kHendrycksContext) : most;
    }
    for (std::size_t i = 0; i < kMmluChoices; ++i) {
      const EncodedPair pair = encode_pair(tokenizer, "Answer:", spaced_letter(i));
      single_tokens_ = single_tokens_ && pair.continuation.size() == 1;
      letters_[i] = pair.continuation.front();
    }
  }

  bool single_tokens() const { return single_tokens_; }

  std::int64_t questions(const MmluSubject& subject) const {
    const auto all = static_cast<std::int64_t>(subject.test.size());
    return options_.limit > 0 ? std::min(options_.limit, all) : all;
  }

  MmluSubjectResult score(const MmluSubject& subject, const std::function<void(std::int64_t)>& after) const {
    const std::vector<Prompt> prompts = make_prompts(subject);
    MmluSubjectResult result{subject.subject, std::vector<MmluAnswer>(prompts.size()), {}};
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      result.answers[i].answer = subject.test[i].answer;
      result.answers[i].shots = prompts[i].shots;
      result.answers[i].truncated = static_cast<std::int64_t>(prompts[i].ids.size()) > options_.context;
    }
    single_tokens_ ? score_letters(prompts, result.answers, after)
                   : score_continuations(prompts, result.answers, after);
    for (const MmluAnswer& answer : result.answers) result.accuracy.add(answer.correct());
    return result;
  }

 private:
  std::string shots_text(const MmluSubject& subject, std::int64_t count) const {
    return mmlu_shots(options_.protocol, subject.subject,
                      std::span(subject.dev).first(static_cast<std::size_t>(count)));
  }

  std::vector<Prompt> make_prompts(const MmluSubject& subject) const {
    std::vector<std::string> shots;  // shots[k]: the text with k of them
    for (std::int64_t k = 0; k <= options_.shots; ++k) shots.push_back(shots_text(subject, k));
    if (options_.protocol == MmluProtocol::kSglang) {
      const auto tokens = [&] { return static_cast<std::int64_t>(tokenizer_.encode(shots.back()).size()); };
      while (shots.size() > 1 && tokens() > kSglangShotTokens) shots.pop_back();
    }
    std::vector<Prompt> prompts(static_cast<std::size_t>(questions(subject)));
    parallel_for(static_cast<std::int64_t>(prompts.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        prompts[i] = make_prompt(shots, mmlu_question(options_.protocol, subject.test[i]));
      }
    });
    return prompts;
  }

  Prompt make_prompt(const std::vector<std::string>& shots, const std::string& question) const {
    Prompt prompt;
    for (std::size_t k = shots.size(); k-- > 0;) {
      prompt.text = shots[k] + question;
      prompt.ids = tokenizer_.encode(prompt.text);
      prompt.shots = static_cast<std::int64_t>(k);
      const bool fits = static_cast<std::int64_t>(prompt.ids.size()) <= options_.context;
      if (fits || options_.protocol != MmluProtocol::kHendrycks) break;
    }
    return prompt;
  }

  // One sequence a question.
  void score_letters(const std::vector<Prompt>& prompts, std::vector<MmluAnswer>& answers,
                     const std::function<void(std::int64_t)>& after) const {
    std::vector<Passage> passages;
    passages.reserve(prompts.size());
    for (const Prompt& prompt : prompts)
      passages.push_back(passage_of({prompt.ids, {letters_[0]}}, options_.context));
    for_each_prediction(
        model_, passages,
        [&](std::size_t i, std::int64_t, std::span<const float> logits) {
          const Prediction prediction(logits);
          const bool limited = options_.protocol == MmluProtocol::kHendrycks;
          for (std::size_t k = 0; k < kMmluChoices; ++k) {
            const bool absent = limited && prediction.rank(letters_[k]) >= kHendrycksTop;
            answers[i].loglikelihoods[k] = absent ? kHendrycksAbsent : prediction.logprob(letters_[k]);
          }
          choose(prediction.best(), answers[i]);
        },
        after);
  }

  // One sequence a choice.
  void score_continuations(const std::vector<Prompt>& prompts, std::vector<MmluAnswer>& answers,
                           const std::function<void(std::int64_t)>& after) const {
    std::vector<EncodedPair> pairs;
    for (const Prompt& prompt : prompts) {
      for (std::size_t k = 0; k < kMmluChoices; ++k) {
        pairs.push_back(encode_pair(tokenizer_, prompt.text, spaced_letter(k)));
      }
    }
    const std::vector<Continued> scores =
        score_pairs(model_, pairs, options_.context,
                    [&](std::int64_t done) { after(done / static_cast<std::int64_t>(kMmluChoices)); });
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      answers[i / kMmluChoices].loglikelihoods[i % kMmluChoices] = scores[i].loglikelihood;
    }
    for (std::size_t i = 0; i < prompts.size(); ++i) choose(scores[i * kMmluChoices].best_first, answers[i]);
  }

  // From the log-likelihoods, or from the most probable next token.
  void choose(std::int32_t best, MmluAnswer& answer) const {
    const auto& values = answer.loglikelihoods;
    if (options_.protocol != MmluProtocol::kSglang) {
      answer.choice =
          static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
      return;
    }
    const std::string text = tokenizer_.decode(std::span(&best, 1), /*skip_special_tokens=*/true);
    const std::string_view said = strip(text);
    if (!said.empty() && said[0] >= 'A' && said[0] <= 'D')
      answer.choice = static_cast<std::size_t>(said[0] - 'A');
  }

  const models::Decoder& model_;
  const text::Tokenizer& tokenizer_;
  MmluOptions options_;  // as they are used
  bool single_tokens_ = true;
  std::array<std::int32_t, kMmluChoices> letters_ = {};
};

void summarize(MmluResult& result) {
  std::vector<Accuracy> all;
  std::map<std::string, std::vector<Accuracy>> groups;
  for (const MmluSubjectResult& subject : result.subjects) {
    all.push_back(subject.accuracy);
    groups[subject.subject.group].push_back(subject.accuracy);
  }
  for (const auto& [name, sets] : groups) result.groups[name] = mean_of_questions(sets);
  result.questions = mean_of_questions(all);
  result.mean_of_subjects = mean_of_sets(all);
}

}  // namespace

MmluResult score_mmlu(const models::Decoder& model, const text::Tokenizer& tokenizer,
                      std::span<const MmluSubject> subjects, const MmluOptions& options, Progress& progress) {
  check(!subjects.empty(), ErrorCode::kInvalidArgument, "mmlu: no subject is given");
  const Scorer scorer(model, tokenizer, options);
  std::int64_t questions = 0;
  for (const MmluSubject& subject : subjects) {
    check(options.shots <= static_cast<std::int64_t>(subject.dev.size()), ErrorCode::kInvalidArgument,
          "--shots {}: {} has {} dev questions", options.shots, subject.subject.name, subject.dev.size());
    questions += scorer.questions(subject);
  }
  MmluResult result;
  result.single_tokens = scorer.single_tokens();
  Accuracy so_far;
  progress.start("mmlu", questions, "questions");
  for (const MmluSubject& subject : subjects) {
    result.subjects.push_back(scorer.score(
        subject, [&](std::int64_t done) { progress.update(so_far.questions + done, subject.subject.name); }));
    so_far.correct += result.subjects.back().accuracy.correct;
    so_far.questions += result.subjects.back().accuracy.questions;
    progress.update(so_far.questions, fmt::format("acc {:.4f}", so_far.mean()));
  }
  progress.finish();
  summarize(result);
  return result;
}

}  // namespace grille::evaluate
