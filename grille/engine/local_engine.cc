#include "grille/engine/local_engine.h"

#include <algorithm>
#include <span>

#include <c10/core/InferenceMode.h>

#include "grille/base/error.h"

namespace grille::engine {
namespace {

std::int64_t pages_for(std::int64_t tokens) { return (tokens + formats::kPageSize - 1) / formats::kPageSize; }

std::int64_t sequence_limit(const models::DecoderConfig& config, const LocalEngineOptions& options) {
  return options.max_positions > 0 ? std::min(options.max_positions, config.max_positions)
                                   : config.max_positions;
}

}  // namespace

struct LocalEngine::Sequence {
  RequestId id = 0;
  Request request;
  std::vector<std::int32_t> tokens;  // prompt and output
  std::int64_t cached = 0;           // tokens whose keys and values are in the cache
  std::int64_t generated = 0;
  std::vector<std::int32_t> pages;
  Sampler sampler;
  at::Tensor last_hidden;  // [1, hidden] of the last cached token
};

LocalEngine::LocalEngine(const models::Decoder& model, const LocalEngineOptions& options)
    : model_(model),
      options_(options),
      pages_(pages_for(sequence_limit(model.config(), options))),
      cache_(model.config(), pages_for(sequence_limit(model.config(), options)), model.compute_dtype()) {
  options_.max_positions = sequence_limit(model.config(), options);
}

LocalEngine::~LocalEngine() = default;

RequestId LocalEngine::submit(Request request) {
  const std::int64_t vocab = model_.config().vocab_size;
  const std::int64_t length = static_cast<std::int64_t>(request.prompt.size());
  check(length > 0, ErrorCode::kInvalidArgument, "prompt: it has no tokens; give some text");
  check(request.max_tokens >= 1, ErrorCode::kInvalidArgument, "max_tokens {}: expected at least 1",
        request.max_tokens);
  check(length < options_.max_positions, ErrorCode::kInvalidArgument,
        "prompt: {} tokens leave no room in the context of {}", length, options_.max_positions);
  for (const std::int32_t id : request.prompt) {
    check(id >= 0 && id < vocab, ErrorCode::kInvalidArgument,
          "prompt: token id {} is outside the vocabulary of {}", id, vocab);
  }
  Sampler sampler(request.sampling, request.prompt, vocab);
  std::vector<std::int32_t> tokens = request.prompt;
  queue_.push_back(std::unique_ptr<Sequence>(
      new Sequence{next_id_, std::move(request), std::move(tokens), 0, 0, {}, std::move(sampler), {}}));
  return next_id_++;
}

void LocalEngine::abort(RequestId request) {
  const auto found =
      std::find_if(queue_.begin(), queue_.end(), [&](const auto& s) { return s->id == request; });
  if (found == queue_.end()) return;
  release_pages(**found);
  queue_.erase(found);
}

std::vector<TokenEvent> LocalEngine::step() {
  const c10::InferenceMode inference;  // views cost half as much
  if (queue_.empty()) return {};
  Sequence& sequence = *queue_.front();
  const std::int64_t waiting = static_cast<std::int64_t>(sequence.tokens.size()) - sequence.cached;
  run_tokens(sequence, std::min(waiting, options_.prefill_chunk));
  if (sequence.cached < static_cast<std::int64_t>(sequence.tokens.size())) return {};
  return emit(sequence);
}

// Computes the next `count` tokens of the sequence and puts their keys and values into the cache.
void LocalEngine::run_tokens(Sequence& sequence, std::int64_t count) {
  while (static_cast<std::int64_t>(sequence.pages.size()) < pages_for(sequence.cached + count)) {
    const std::optional<std::int32_t> page = pages_.allocate();
    check(page.has_value(), ErrorCode::kInternal, "engine: the cache ran out of pages");
    sequence.pages.push_back(*page);
  }
  const auto begin = sequence.tokens.begin() + sequence.cached;
  const std::vector<std::int32_t> ids(begin, begin + count);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) positions[static_cast<std::size_t>(i)] = sequence.cached + i;
  PagedAttention attention(cache_, {{sequence.pages.data(), 0, sequence.cached, count}});
  sequence.last_hidden = model_.forward(ids, positions, attention).narrow(0, count - 1, 1);
  sequence.cached += count;
}

std::vector<TokenEvent> LocalEngine::emit(Sequence& sequence) {
  const at::Tensor logits = model_.logits(sequence.last_hidden);
  const Sampled sampled = sequence.sampler.sample(
      std::span<const float>(logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.numel())));
  sequence.tokens.push_back(sampled.token);
  ++sequence.generated;

  TokenEvent event{sequence.id, sampled.token, sampled.logprob, std::nullopt};
  const auto& stops = sequence.request.stop_tokens;
  if (std::find(stops.begin(), stops.end(), sampled.token) != stops.end()) {
    event.finish = FinishReason::kStop;
  } else if (sequence.generated >= sequence.request.max_tokens ||
             static_cast<std::int64_t>(sequence.tokens.size()) >= options_.max_positions) {
    event.finish = FinishReason::kLength;
  }
  if (event.finish) abort(sequence.id);
  return {event};
}

void LocalEngine::release_pages(Sequence& sequence) {
  for (const std::int32_t page : sequence.pages) pages_.release(page);
  sequence.pages.clear();
}

}  // namespace grille::engine
