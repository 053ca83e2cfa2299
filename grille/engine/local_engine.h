// An engine in this process: requests are served one after the other, first come, first served.
#pragma once

#include <deque>
#include <memory>

#include "grille/engine/engine.h"
#include "grille/engine/kv_cache.h"
#include "grille/models/decoder.h"

namespace grille::engine {

struct LocalEngineOptions {
  std::int64_t max_positions = 0;    // longest sequence, prompt and output together; 0: the model's
  std::int64_t prefill_chunk = 512;  // prompt tokens a step
};

class LocalEngine final : public Engine {
 public:
  // `model` must outlive the engine.
  LocalEngine(const models::Decoder& model, const LocalEngineOptions& options);
  ~LocalEngine() override;

  RequestId submit(Request request) override;
  void abort(RequestId request) override;
  std::vector<TokenEvent> step() override;
  bool idle() const override { return queue_.empty(); }

 private:
  struct Sequence;

  void run_tokens(Sequence& sequence, std::int64_t count);
  std::vector<TokenEvent> emit(Sequence& sequence);
  void release_pages(Sequence& sequence);

  const models::Decoder& model_;
  LocalEngineOptions options_;
  PageAllocator pages_;
  KvCache cache_;
  std::deque<std::unique_ptr<Sequence>> queue_;
  RequestId next_id_ = 1;
};

}  // namespace grille::engine
