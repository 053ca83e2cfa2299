#include "grille/server/choice_stream.h"

#include <algorithm>
#include <utility>

namespace grille::server {
namespace {

bool contains(const std::vector<std::int32_t>& ids, std::int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

void ChoiceDelta::append(ChoiceDelta other) {
  text += other.text;
  logprobs.insert(logprobs.end(), std::make_move_iterator(other.logprobs.begin()),
                  std::make_move_iterator(other.logprobs.end()));
  if (!other.finished()) return;
  finish_reason = std::move(other.finish_reason);
  stop_reason = std::move(other.stop_reason);
}

ChoiceStream::ChoiceStream(const PreparedGeneration& prepared, std::size_t index, const ServedModel& model)
    : prepared_(prepared),
      prompt_(prepared.prompts.at(index / static_cast<std::size_t>(prepared.request.n))),
      model_(model),
      detokenizer_(model.tokenizer, prepared.request.skip_special_tokens),
      matcher_(prepared.request.stop) {
  detokenizer_.set_context(prompt_.ids);
}

ChoiceDelta ChoiceStream::push(const engine::TokenEvent& event) {
  ChoiceDelta delta;
  if (finished_) return delta;
  if (!started_ && prepared_.echo) add_prompt(event, delta);
  started_ = true;
  if (prepared_.prompt_only) {
    finished_ = true;
    delta.finish_reason = "length";
    return delta;
  }
  ++completion_tokens_;
  if (prepared_.request.logprobs) delta.logprobs.push_back({event.token, event.logprob, event.top});
  add_text(event, delta);
  finish(event, delta);
  return delta;
}

void ChoiceStream::add_prompt(const engine::TokenEvent& event, ChoiceDelta& delta) const {
  delta.text = prompt_.text;
  if (!prepared_.request.logprobs) return;
  check(event.prompt.size() + 1 == prompt_.ids.size(), ErrorCode::kInternal,
        "the engine reported log-probabilities of {} prompt tokens, expected {}", event.prompt.size(),
        prompt_.ids.size() - 1);
  delta.logprobs.push_back({prompt_.ids.front(), std::nullopt, {}});
  for (const engine::PositionLogprobs& position : event.prompt)
    delta.logprobs.push_back({position.token.token, position.token.logprob, position.top});
}

void ChoiceStream::add_text(const engine::TokenEvent& event, ChoiceDelta& delta) {
  const GenerationRequest& request = prepared_.request;
  std::string piece;
  const bool hidden = event.finish == engine::FinishReason::kStop && !request.include_stop;
  if (!hidden) piece = detokenizer_.push(event.token);
  if (event.finish) piece += detokenizer_.flush();
  // Stop strings cannot end a choice before min_tokens.
  delta.text += completion_tokens_ <= request.min_tokens && !event.finish ? piece : matcher_.push(piece);
}

void ChoiceStream::finish(const engine::TokenEvent& event, ChoiceDelta& delta) {
  const GenerationRequest& request = prepared_.request;
  if (matcher_.stopped()) {
    delta.finish_reason = "stop";
    delta.stop_reason = matcher_.matched();
    if (request.include_stop) delta.text += matcher_.matched();
  } else if (event.finish) {
    delta.text += matcher_.flush();
    const bool stop = event.finish == engine::FinishReason::kStop;
    delta.finish_reason = stop ? "stop" : "length";
    const bool is_eos = !request.ignore_eos && contains(model_.tokenizer.eos_ids(), event.token);
    if (stop && !is_eos) delta.stop_reason = event.token;
  }
  finished_ = delta.finished();
}

}  // namespace grille::server
