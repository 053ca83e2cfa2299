#include "grille/engine/local_engine.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <c10/core/InferenceMode.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"

namespace grille::engine {
namespace {

constexpr std::int64_t kDefaultCacheBytes = std::int64_t{4} << 30;
constexpr std::int64_t kLogitBytes = 64 << 20;  // of the rows whose logits are held at once

// Adds the time since the last call to a stage.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

LocalEngineOptions completed(const models::Decoder& model, LocalEngineOptions options) {
  for (const std::int64_t value : {options.max_positions, options.kv_pages, options.kv_bytes}) {
    check(value >= 0, ErrorCode::kInvalidArgument,
          "engine: max_positions, kv_pages and kv_bytes are at least 0, got {}", value);
  }
  const models::DecoderConfig& config = model.config();
  options.max_positions = options.max_positions > 0 ? std::min(options.max_positions, config.max_positions)
                                                    : config.max_positions;
  const std::int64_t bytes = page_bytes(config, model.compute_dtype());
  if (options.kv_pages == 0) {
    const std::int64_t one = pages_for(options.max_positions);
    const bool given = options.kv_bytes > 0;
    options.kv_pages = (given ? options.kv_bytes : std::max(kDefaultCacheBytes, one * bytes)) / bytes;
    check(options.kv_pages > 0, ErrorCode::kInvalidArgument,
          "kv_bytes {}: a page of the key/value cache takes {}", options.kv_bytes, bytes);
    // More than all sequences can use would never be touched.
    options.kv_pages = std::min(options.kv_pages, one * std::max<std::int64_t>(options.max_sequences, 1));
  }
  options.kv_bytes = options.kv_pages * bytes;
  options.max_positions = std::min(options.max_positions, options.kv_pages * formats::kPageSize);
  return options;
}

// The rows' own part of the step's hidden states.
at::Tensor gather(const at::Tensor& hidden, std::span<const LogitRow> rows) {
  const auto count = static_cast<std::int64_t>(rows.size());
  if (rows.back().row - rows.front().row == count - 1) return hidden.narrow(0, rows.front().row, count);
  const at::Tensor indices = at::empty({count}, at::kLong);
  auto* index = indices.mutable_data_ptr<std::int64_t>();
  for (const LogitRow& row : rows) *index++ = row.row;
  return at::index_select(hidden, 0, indices);
}

}  // namespace

LocalEngine::LocalEngine(const models::Decoder& model, const LocalEngineOptions& options)
    : model_(model),
      options_(completed(model, options)),
      pages_(options_.kv_pages, options_.prefix_cache),
      cache_(model.config(), options_.kv_pages, model.compute_dtype()),
      scheduler_({options_.max_batched_tokens, options_.max_sequences}, pages_) {}

RequestId LocalEngine::submit(Request request) {
  const std::int64_t vocab = model_.config().vocab_size;
  const std::int64_t length = static_cast<std::int64_t>(request.prompt.size());
  check(length > 0, ErrorCode::kInvalidArgument, "prompt: it has no tokens; give some text");
  check(request.max_tokens >= 1, ErrorCode::kInvalidArgument, "max_tokens {}: expected at least 1",
        request.max_tokens);
  check(request.min_tokens >= 0 && request.min_tokens <= request.max_tokens, ErrorCode::kInvalidArgument,
        "min_tokens {}: expected a number from 0 to max_tokens, {}", request.min_tokens, request.max_tokens);
  check(request.top_logprobs >= 0 && request.top_logprobs <= kMaxTopLogprobs, ErrorCode::kInvalidArgument,
        "top_logprobs {}: expected a number from 0 to {}", request.top_logprobs, kMaxTopLogprobs);
  check(length < options_.max_positions, ErrorCode::kInvalidArgument,
        "prompt: {} tokens leave no room in the context of {}", length, options_.max_positions);
  for (const std::int32_t id : request.prompt) {
    check(id >= 0 && id < vocab, ErrorCode::kInvalidArgument,
          "prompt: token id {} is outside the vocabulary of {}", id, vocab);
  }
  scheduler_.add(std::make_unique<Sequence>(next_id_, std::move(request), vocab));
  return next_id_++;
}

void LocalEngine::abort(RequestId request) { scheduler_.remove(request); }

std::vector<TokenEvent> LocalEngine::step() {
  const c10::InferenceMode inference;  // views cost half as much
  Stopwatch watch;
  const std::vector<ScheduledSequence> plan = scheduler_.plan();
  if (plan.empty()) return {};
  const Batch batch(plan);
  seconds_.schedule += watch.lap();
  const at::Tensor hidden = forward(batch);
  std::vector<RowOutcome> outcomes = evaluate_rows(hidden, batch.rows);
  watch.lap();
  // Until here no sequence has changed, but for the samplers of those that have an outcome.
  advance(plan);
  std::vector<TokenEvent> events = take_over(batch.rows, std::move(outcomes));
  ++counts_.steps;
  counts_.last_step_tokens = static_cast<std::int64_t>(batch.ids.size());
  counts_.prompt_tokens += batch.prompt_tokens;
  seconds_.bookkeeping += watch.lap();
  return events;
}

at::Tensor LocalEngine::forward(const Batch& batch) {
  Stopwatch watch;
  PagedAttention attention(cache_, batch.spans);
  const at::Tensor hidden = model_.forward(batch.ids, batch.positions, attention);
  const double layers = watch.lap() - attention.seconds();
  (batch.decodes_only ? seconds_.decode_layers : seconds_.prompt_layers) += layers;
  (batch.decodes_only ? seconds_.decode_attention : seconds_.prompt_attention) += attention.seconds();
  return hidden;
}

std::vector<RowOutcome> LocalEngine::evaluate_rows(const at::Tensor& hidden, std::span<const LogitRow> rows) {
  Stopwatch watch;
  std::vector<RowOutcome> outcomes(rows.size());
  const auto vocab = static_cast<std::size_t>(model_.config().vocab_size);
  const std::size_t chunk = std::max<std::size_t>(kLogitBytes / (vocab * sizeof(float)), 1);
  for (std::size_t begin = 0; begin < rows.size(); begin += chunk) {
    const std::span<const LogitRow> part = rows.subspan(begin, std::min(chunk, rows.size() - begin));
    at::Tensor logits;
    try {
      logits = model_.logits(gather(hidden, part));
    } catch (const std::exception& error) {  // no memory: those before have been sampled, so the step goes on
      for (std::size_t i = 0; i < part.size(); ++i) {
        outcomes[begin + i].error = Error(ErrorCode::kOutOfMemory, error.what());
      }
      continue;
    }
    seconds_.head += watch.lap();
    const float* values = logits.const_data_ptr<float>();
    parallel_for(static_cast<std::int64_t>(part.size()), 1, [&](std::int64_t first, std::int64_t last) {
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
        outcomes[begin + i] = evaluate_row(part[i], {values + i * vocab, vocab});
      }
    });
    seconds_.sampling += watch.lap();
  }
  return outcomes;
}

void LocalEngine::advance(std::span<const ScheduledSequence> plan) {
  for (const auto& [sequence, count] : plan) {
    sequence->computed += count;
    pages_.record(sequence->tokens, sequence->computed, sequence->pages);
  }
}

std::vector<TokenEvent> LocalEngine::take_over(std::span<const LogitRow> rows,
                                               std::vector<RowOutcome> outcomes) {
  std::vector<TokenEvent> events;
  const Sequence* failed = nullptr;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].sequence == failed) continue;
    RowOutcome& outcome = outcomes[i];
    Sequence& sequence = *rows[i].sequence;
    if (outcome.error) {
      TokenEvent event;
      event.request = sequence.id;
      event.finish = FinishReason::kError;
      event.error = std::move(outcome.error);
      failed = &sequence;
      scheduler_.remove(sequence.id);
      events.push_back(std::move(event));
    } else if (rows[i].sampled) {
      events.push_back(append(sequence, std::move(outcome.event)));
    } else {
      sequence.prompt_logprobs.push_back(std::move(outcome.prompt));
    }
  }
  return events;
}

// The sequence grows by its new token, and ends there if it is the last.
TokenEvent LocalEngine::append(Sequence& sequence, TokenEvent event) {
  if (sequence.generated() == 0) {
    event.prompt = std::move(sequence.prompt_logprobs);
    event.cached_prompt_tokens = sequence.cached_prompt_tokens;
  }
  sequence.tokens.push_back(event.token);
  ++counts_.generated_tokens;
  const auto& stops = sequence.request.stop_tokens;
  if (std::find(stops.begin(), stops.end(), event.token) != stops.end()) {
    event.finish = FinishReason::kStop;
  } else if (sequence.generated() >= sequence.request.max_tokens ||
             sequence.length() >= options_.max_positions) {
    event.finish = FinishReason::kLength;
  }
  if (event.finish) scheduler_.remove(sequence.id);
  return event;
}

EngineStats LocalEngine::stats() const {
  EngineStats stats = counts_;
  stats.running = scheduler_.running();
  stats.waiting = scheduler_.waiting();
  stats.pages = pages_.num_pages();
  stats.pages_in_use = pages_.num_pages() - pages_.free_pages();
  stats.prefix_queries = scheduler_.prefix_queries();
  stats.prefix_hits = scheduler_.prefix_hits();
  stats.preemptions = scheduler_.preemptions();
  return stats;
}

}  // namespace grille::engine
