// The engine in this process: continuous batching over one model.
#pragma once

#include <vector>

#include "grille/engine/batch.h"
#include "grille/engine/engine.h"
#include "grille/engine/kv_cache.h"
#include "grille/engine/kv_pages.h"
#include "grille/engine/scheduler.h"
#include "grille/engine/token_choice.h"
#include "grille/models/decoder.h"

namespace grille::engine {

struct LocalEngineOptions {
  // Longest sequence, prompt and output together; 0: the model's. Never more than the cache holds.
  std::int64_t max_positions = 0;
  std::int64_t max_batched_tokens = 512;  // a step: of all sequences together
  std::int64_t max_sequences = 256;       // that run at once
  // Size of the key/value cache: pages of 16 tokens, or, if that is 0, bytes. Both 0: room for max_sequences
  // of the longest sequence, but at most 4 GiB, or one such sequence where that is more. Memory is committed
  // as pages are first used.
  std::int64_t kv_pages = 0;
  std::int64_t kv_bytes = 0;
  bool prefix_cache = true;  // requests that begin alike share what was computed for one
};

// Where the steps' time went so far, in seconds. The model's forward is told apart by what the step held:
// only sequences that decode, or pieces of prompts too.
struct StageSeconds {
  double schedule = 0.0;  // choosing, pages, the batch's inputs
  double decode_layers = 0.0;
  double decode_attention = 0.0;
  double prompt_layers = 0.0;  // all of the forward but attention
  double prompt_attention = 0.0;
  double head = 0.0;
  double sampling = 0.0;
  double bookkeeping = 0.0;  // taking the results over

  double total() const {
    return schedule + decode_layers + decode_attention + prompt_layers + prompt_attention + head + sampling +
           bookkeeping;
  }
  double host() const { return schedule + bookkeeping; }
};

// A request gets the same greedy tokens and the same draws alone or among others, in one piece or in chunks,
// with a cached prefix or without, preempted or not, as far as matmul.h promises that a row does not depend
// on the others: where a lone token's sums have an order of their own, logits may differ in their last bits.
class LocalEngine final : public Engine {
 public:
  // `model` must outlive the engine. Throws Error{kInvalidArgument} for options out of range.
  LocalEngine(const models::Decoder& model, const LocalEngineOptions& options);

  RequestId submit(Request request) override;
  void abort(RequestId request) override;
  std::vector<TokenEvent> step() override;
  bool idle() const override { return scheduler_.running() + scheduler_.waiting() == 0; }
  EngineStats stats() const override;
  std::int64_t max_positions() const override { return options_.max_positions; }

  const StageSeconds& stage_seconds() const { return seconds_; }

 private:
  at::Tensor forward(const Batch& batch);
  std::vector<RowOutcome> evaluate_rows(const at::Tensor& hidden, std::span<const LogitRow> rows);
  void advance(std::span<const ScheduledSequence> plan);
  std::vector<TokenEvent> take_over(std::span<const LogitRow> rows, std::vector<RowOutcome> outcomes);
  TokenEvent append(Sequence& sequence, TokenEvent event);

  const models::Decoder& model_;
  LocalEngineOptions options_;  // as they are used: none is 0
  KvPages pages_;
  KvCache cache_;
  Scheduler scheduler_;
  RequestId next_id_ = 1;
  EngineStats counts_;  // what the scheduler does not count
  StageSeconds seconds_;
};

}  // namespace grille::engine
