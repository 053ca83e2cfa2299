// One thread that owns an Engine, and the door through which other threads reach it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "grille/base/error.h"
#include "grille/engine/engine.h"

namespace grille::engine {

struct EngineLoopOptions {
  std::int64_t max_queue = 1024;  // most requests that wait for their first piece of work
};

// A request inside a loop; never used twice.
using Ticket = std::int64_t;

// What a request hears, in this order: RequestAccepted, tokens, and at the end of a request either a token
// with `finish` set or a RequestFailure.
struct RequestAccepted {};
struct RequestFailure {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};
using RequestEvent = std::variant<RequestAccepted, TokenEvent, RequestFailure>;

// Called on the loop's thread: it must neither block nor throw nor call the loop. `index` is the request's
// place in what was submitted.
using EventCallback = std::function<void(std::size_t index, const RequestEvent& event)>;

enum class Refusal : std::uint8_t {
  kQueueFull,  // try again later
  kDraining,   // no more requests are taken
  kBroken,     // the engine failed and did not come back
};

using Admission = std::variant<std::vector<Ticket>, Refusal>;

struct LoopStats {
  EngineStats engine;             // as of the last step
  std::int64_t live = 0;          // requests that were taken and have not ended
  std::int64_t waiting = 0;       // those of them that the engine does not run yet
  std::int64_t refused = 0;       // requests that found the queue full
  std::int64_t failed_steps = 0;  // steps that ended in an exception
  bool draining = false;
  bool broken = false;
};

// All members may be called from any thread, but none of them in a callback.
class EngineLoop {
 public:
  // Starts the thread, with as many threads for its parallel loops as this one has. `engine` must outlive the
  // loop, and nobody else may use it until then.
  EngineLoop(Engine& engine, const EngineLoopOptions& options);
  // Stops at once: requests that are left fail with kCancelled.
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // Takes all requests or none. Whether a request is valid is told later, by a RequestFailure with
  // kInvalidArgument. A step that throws fails every request that the engine holds with its error, and the
  // loop goes on with those behind them.
  Admission submit(std::vector<Request> requests, EventCallback callback);

  // Ends a request without another word; events that are on their way may still arrive. Unknown tickets are
  // ignored.
  void abort(Ticket ticket);

  // Refuses what comes from now on.
  void stop_admitting();

  // stop_admitting(), then waits until every request has ended, at most until `deadline`. Returns whether all
  // of them ended by themselves; those that did not fail with kCancelled. The thread has ended afterwards.
  bool drain(std::chrono::steady_clock::time_point deadline);

  LoopStats stats() const;
  std::int64_t max_positions() const { return max_positions_; }

 private:
  struct Submission {
    Ticket ticket;
    std::size_t index;
    Request request;
    std::shared_ptr<const EventCallback> callback;
  };
  struct Held {  // a request that the engine has
    Ticket ticket;
    std::size_t index;
    std::shared_ptr<const EventCallback> callback;
  };

  void run();
  bool wait_for_work(std::deque<Submission>& arrived, std::unordered_set<Ticket>& aborted);
  void hand_over(Submission submission);
  void abort_held(const std::unordered_set<Ticket>& aborted);
  void step();
  void fail_all(const RequestFailure& failure);
  void end(RequestId id);
  void publish();
  void stop();

  Engine& engine_;
  const EngineLoopOptions options_;
  const std::int64_t max_positions_;

  mutable std::mutex mutex_;
  std::condition_variable work_;  // the inbox has something, or the loop should stop
  std::condition_variable done_;  // a request ended
  std::deque<Submission> inbox_;
  std::unordered_set<Ticket> aborted_;
  Ticket next_ticket_ = 1;
  LoopStats stats_;
  bool stopping_ = false;

  // Only the loop's thread touches these.
  std::unordered_map<RequestId, Held> held_;
  std::unordered_map<Ticket, RequestId> request_of_;
  std::int64_t ended_ = 0;  // since the last publish()
  bool broken_ = false;

  std::thread thread_;
};

}  // namespace grille::engine
