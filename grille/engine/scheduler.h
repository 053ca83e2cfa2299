// What a step computes: pure decisions over sequences and pages; no tensor is touched.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "grille/engine/kv_pages.h"
#include "grille/engine/sequence.h"

namespace grille::engine {

struct SchedulerLimits {
  std::int64_t max_batched_tokens =
      512;                           // a step; at least max_sequences, so that every one that decodes fits
  std::int64_t max_sequences = 256;  // that run at once
};

// A sequence's next `count` tokens are computed; their pages are there.
struct ScheduledSequence {
  Sequence* sequence = nullptr;
  std::int64_t count = 0;
};

// First come, first served. A step holds one token of every sequence that decodes, then pieces of prompts in
// order of arrival, then new sequences. One is admitted when pages for all its tokens are free, and one more
// for each that runs, so that it does not drive them out at once. Where a sequence that decodes finds no
// page, the latest arrival gives up all of its own and waits, ahead of all others, to be computed again. The
// first to arrive always goes on, so that every request ends, if the cache holds the longest sequence.
class Scheduler {
 public:
  // Throws Error{kInvalidArgument} for limits below one, or fewer tokens than sequences.
  Scheduler(const SchedulerLimits& limits, KvPages& pages);

  void add(std::unique_ptr<Sequence> sequence);
  // Frees its pages; false for an unknown id.
  bool remove(RequestId id);
  // Empty only if nothing is left to do.
  std::vector<ScheduledSequence> plan();

  std::int64_t running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  std::int64_t preemptions() const { return preemptions_; }
  std::int64_t prefix_queries() const { return prefix_queries_; }  // prompt tokens looked up, and found
  std::int64_t prefix_hits() const { return prefix_hits_; }

 private:
  bool make_room(Sequence& sequence);
  void preempt_latest();
  bool admit(Sequence& sequence);

  SchedulerLimits limits_;
  KvPages& pages_;
  std::vector<std::unique_ptr<Sequence>> running_;  // both in order of arrival: all that run came first
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::int64_t preemptions_ = 0;
  std::int64_t prefix_queries_ = 0;
  std::int64_t prefix_hits_ = 0;
};

}  // namespace grille::engine
