#include "grille/engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "grille/base/error.h"

namespace grille::engine {

Scheduler::Scheduler(const SchedulerLimits& limits, KvPages& pages) : limits_(limits), pages_(pages) {
  check(limits.max_sequences >= 1, ErrorCode::kInvalidArgument, "max_sequences {}: expected at least 1",
        limits.max_sequences);
  check(limits.max_batched_tokens >= limits.max_sequences, ErrorCode::kInvalidArgument,
        "max_batched_tokens {}: expected at least max_sequences, {}", limits.max_batched_tokens,
        limits.max_sequences);
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) { waiting_.push_back(std::move(sequence)); }

bool Scheduler::remove(RequestId id) {
  const auto has_id = [&](const auto& sequence) { return sequence->id == id; };
  if (const auto found = std::find_if(running_.begin(), running_.end(), has_id); found != running_.end()) {
    pages_.release((*found)->pages);
    running_.erase(found);
    return true;
  }
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), has_id);
  if (found == waiting_.end()) return false;
  waiting_.erase(found);
  return true;
}

std::vector<ScheduledSequence> Scheduler::plan() {
  std::vector<ScheduledSequence> plan;
  std::int64_t budget = limits_.max_batched_tokens;
  const auto schedule = [&](Sequence& sequence) {
    const std::int64_t count = std::min(sequence.pending(), budget);
    if (count > 0) plan.push_back({&sequence, count});
    budget -= count;
  };
  const std::int64_t preemptions = preemptions_;
  // By index: preemption takes sequences from the end, and none that is scheduled already.
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.pending() == 1 && make_room(sequence)) schedule(sequence);
  }
  for (const auto& sequence : running_) {
    if (sequence->pending() > 1) schedule(*sequence);
  }
  // What was driven out is not brought back in the same step.
  if (preemptions != preemptions_) return plan;
  while (!waiting_.empty() && budget > 0 && running() < limits_.max_sequences && admit(*waiting_.front())) {
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    schedule(*running_.back());
  }
  return plan;
}

// Finds a page for the next token; false if the sequence had to give up its own.
bool Scheduler::make_room(Sequence& sequence) {
  while (!pages_.grow(sequence.pages, sequence.length())) {
    const bool own = running_.back().get() == &sequence;
    preempt_latest();
    if (own) return false;
  }
  return true;
}

void Scheduler::preempt_latest() {
  Sequence& sequence = *running_.back();
  pages_.release(sequence.pages);
  sequence.computed = 0;
  sequence.prompt_logprobs.clear();
  waiting_.push_front(std::move(running_.back()));
  running_.pop_back();
  ++preemptions_;
}

bool Scheduler::admit(Sequence& sequence) {
  const std::int64_t found =
      sequence.wants_prompt_logprobs() ? 0 : pages_.find_prefix(sequence.tokens, sequence.pages);
  if (!pages_.grow(sequence.pages, sequence.length(), running())) {
    pages_.release(sequence.pages);
    return false;
  }
  sequence.computed = found;
  if (!std::exchange(sequence.admitted, true)) {
    sequence.cached_prompt_tokens = found;
    prefix_queries_ += sequence.wants_prompt_logprobs() ? 0 : sequence.prompt_length();
    prefix_hits_ += found;
  }
  return true;
}

}  // namespace grille::engine
