#include "grille/engine/engine_loop.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "grille/base/parallel.h"

namespace grille::engine {
namespace {

RequestFailure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return {e.code(), e.what()};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kOutOfMemory, "out of memory"};
  } catch (const std::exception& e) {
    return {ErrorCode::kInternal, e.what()};
  } catch (...) {
    return {ErrorCode::kInternal, "an unknown exception"};
  }
}

}  // namespace

EngineLoop::EngineLoop(Engine& engine, const EngineLoopOptions& options)
    : engine_(engine), options_(options), max_positions_(engine.max_positions()) {
  check(options.max_queue >= 1, ErrorCode::kInvalidArgument, "max_queue: expected at least 1, got {}",
        options.max_queue);
  stats_.engine = engine.stats();
  // OpenMP counts threads for each thread that opens a parallel region.
  thread_ = std::thread([this, threads = num_threads()] {
    set_num_threads(threads);
    run();
  });
}

EngineLoop::~EngineLoop() { stop(); }

Admission EngineLoop::submit(std::vector<Request> requests, EventCallback callback) {
  const auto shared = std::make_shared<const EventCallback>(std::move(callback));
  std::vector<Ticket> tickets;
  tickets.reserve(requests.size());
  {
    const std::lock_guard lock(mutex_);
    const auto count = static_cast<std::int64_t>(requests.size());
    if (stats_.broken) return Refusal::kBroken;
    if (stats_.draining) return Refusal::kDraining;
    if (stats_.live - stats_.engine.running + count > options_.max_queue) {
      stats_.refused += count;
      return Refusal::kQueueFull;
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      tickets.push_back(next_ticket_);
      inbox_.push_back({next_ticket_++, i, std::move(requests[i]), shared});
    }
    stats_.live += count;
  }
  work_.notify_one();
  return tickets;
}

void EngineLoop::abort(Ticket ticket) {
  {
    const std::lock_guard lock(mutex_);
    const auto waiting =
        std::find_if(inbox_.begin(), inbox_.end(), [&](const Submission& s) { return s.ticket == ticket; });
    if (waiting != inbox_.end()) {
      inbox_.erase(waiting);
      --stats_.live;
    } else {
      aborted_.insert(ticket);
    }
  }
  work_.notify_one();
  done_.notify_all();
}

void EngineLoop::stop_admitting() {
  const std::lock_guard lock(mutex_);
  stats_.draining = true;
}

bool EngineLoop::drain(std::chrono::steady_clock::time_point deadline) {
  stop_admitting();
  bool all_ended = false;
  {
    std::unique_lock lock(mutex_);
    all_ended = done_.wait_until(lock, deadline, [&] { return stats_.live == 0; });
  }
  stop();
  return all_ended;
}

LoopStats EngineLoop::stats() const {
  const std::lock_guard lock(mutex_);
  LoopStats stats = stats_;
  stats.waiting = std::max<std::int64_t>(0, stats.live - stats.engine.running);
  return stats;
}

void EngineLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stats_.draining = true;
    stopping_ = true;
  }
  work_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void EngineLoop::run() {
  std::deque<Submission> arrived;
  std::unordered_set<Ticket> aborted;
  while (wait_for_work(arrived, aborted)) {
    abort_held(aborted);
    for (Submission& submission : arrived) hand_over(std::move(submission));
    arrived.clear();
    aborted.clear();
    publish();
    if (!held_.empty()) step();
    publish();
  }
  const RequestFailure failure{ErrorCode::kCancelled, "the server is shutting down"};
  for (const Submission& submission : arrived) {
    (*submission.callback)(submission.index, failure);
    ++ended_;
  }
  fail_all(failure);
  publish();
}

// Takes what is in the inbox; waits for it while the engine has nothing to do. False: the loop should stop.
bool EngineLoop::wait_for_work(std::deque<Submission>& arrived, std::unordered_set<Ticket>& aborted) {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [&] { return stopping_ || !held_.empty() || !inbox_.empty() || !aborted_.empty(); });
  arrived.swap(inbox_);
  aborted.swap(aborted_);
  return !stopping_;
}

void EngineLoop::hand_over(Submission submission) {
  const EventCallback& callback = *submission.callback;
  if (broken_) {
    callback(submission.index, RequestFailure{ErrorCode::kInternal, "the engine has failed"});
    ++ended_;
    return;
  }
  try {
    const RequestId id = engine_.submit(std::move(submission.request));
    request_of_[submission.ticket] = id;
    held_[id] = {submission.ticket, submission.index, submission.callback};
  } catch (...) {
    callback(submission.index, failure_of(std::current_exception()));
    ++ended_;
    return;
  }
  callback(submission.index, RequestAccepted{});
}

void EngineLoop::abort_held(const std::unordered_set<Ticket>& aborted) {
  for (const Ticket ticket : aborted) {
    const auto found = request_of_.find(ticket);
    if (found == request_of_.end()) continue;
    engine_.abort(found->second);
    end(found->second);
  }
}

void EngineLoop::step() {
  try {
    for (const TokenEvent& event : engine_.step()) {
      const auto found = held_.find(event.request);
      if (found == held_.end()) continue;
      const Held& held = found->second;
      if (event.error) {
        (*held.callback)(held.index, RequestFailure{event.error->code(), event.error->what()});
      } else {
        (*held.callback)(held.index, event);
      }
      if (event.finish || event.error) end(event.request);
    }
  } catch (...) {
    RequestFailure failure = failure_of(std::current_exception());
    failure.message = "the engine failed in a step: " + failure.message;
    fail_all(failure);
    const std::lock_guard lock(mutex_);
    ++stats_.failed_steps;
  }
}

// The engine forgets all that it holds. Where it cannot, it is not asked again.
void EngineLoop::fail_all(const RequestFailure& failure) {
  try {
    for (const auto& [id, held] : held_) engine_.abort(id);
    broken_ = !engine_.idle();
  } catch (...) {
    broken_ = true;
  }
  for (const auto& [id, held] : held_) (*held.callback)(held.index, failure);
  ended_ += static_cast<std::int64_t>(held_.size());
  held_.clear();
  request_of_.clear();
}

void EngineLoop::end(RequestId id) {
  const auto found = held_.find(id);
  if (found == held_.end()) return;
  request_of_.erase(found->second.ticket);
  held_.erase(found);
  ++ended_;
}

void EngineLoop::publish() {
  const EngineStats engine = broken_ ? EngineStats{} : engine_.stats();
  {
    const std::lock_guard lock(mutex_);
    stats_.engine = engine;
    stats_.live -= ended_;
    stats_.broken = broken_;
  }
  if (std::exchange(ended_, 0) > 0) done_.notify_all();
}

}  // namespace grille::engine
