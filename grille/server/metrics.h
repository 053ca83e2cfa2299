// What /metrics shows, under vLLM's names, so that dashboards made for it work.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "grille/engine/engine_loop.h"
#include "grille/server/histogram.h"

namespace grille::server {

// Times of one choice; all from the same clock.
struct ChoiceTiming {
  using Clock = std::chrono::steady_clock;
  Clock::time_point arrived;
  Clock::time_point first_token;
  Clock::time_point last_token;
};

// Safe to use from several threads.
class Metrics {
 public:
  explicit Metrics(const std::string& model_name);

  void count_prompt_tokens(std::int64_t tokens);
  void observe_first_token(double seconds);
  void observe_next_token(double seconds);
  // A choice that ended, with "stop", "length", "abort" or "error".
  void observe_end(const std::string& finish_reason, const ChoiceTiming& timing, std::int64_t prompt_tokens,
                   std::int64_t completion_tokens);
  void count_response(const std::string& route, int status);

  // Prometheus' text format 0.0.4.
  std::string text(const engine::LoopStats& stats) const;

 private:
  void write_engine(std::string& out, const engine::LoopStats& stats) const;
  void write_requests(std::string& out) const;

  const std::string labels_;
  mutable std::mutex mutex_;
  std::int64_t prompt_tokens_ = 0;
  std::int64_t generation_tokens_ = 0;
  std::map<std::string, std::int64_t> ended_;
  std::map<std::pair<std::string, int>, std::int64_t> responses_;
  Histogram first_token_seconds_;
  Histogram inter_token_seconds_;
  Histogram output_token_seconds_;
  Histogram request_seconds_;
  Histogram request_prompt_tokens_;
  Histogram request_generation_tokens_;
};

}  // namespace grille::server
