#include "grille/server/metrics.h"

#include <algorithm>

#include <fmt/format.h>

namespace grille::server {
namespace {

// vLLM's buckets.
const std::vector<double> kFirstTokenBounds = {0.001, 0.005, 0.01, 0.02,  0.04,  0.06,  0.08, 0.1,
                                               0.25,  0.5,   0.75, 1.0,   2.5,   5.0,   7.5,  10.0,
                                               20.0,  40.0,  80.0, 160.0, 640.0, 2560.0};
const std::vector<double> kTokenBounds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                          0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
const std::vector<double> kRequestBounds = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                            5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                            60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};

// 1, 2, 5, 10, ... 1,000,000
std::vector<double> token_count_bounds() {
  std::vector<double> bounds;
  for (double decade = 1; decade <= 1e5; decade *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) bounds.push_back(step * decade);
  }
  bounds.push_back(1e6);
  return bounds;
}

std::string escaped(const std::string& value) {
  std::string result;
  for (const char c : value) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

double seconds(ChoiceTiming::Clock::duration time) { return std::chrono::duration<double>(time).count(); }

void write_head(std::string& out, const std::string& name, const char* type, const char* help) {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

}  // namespace

Metrics::Metrics(const std::string& model_name)
    : labels_(fmt::format("model_name=\"{}\",engine=\"0\"", escaped(model_name))),
      first_token_seconds_(kFirstTokenBounds),
      inter_token_seconds_(kTokenBounds),
      output_token_seconds_(kTokenBounds),
      request_seconds_(kRequestBounds),
      request_prompt_tokens_(token_count_bounds()),
      request_generation_tokens_(token_count_bounds()) {
  for (const char* reason : {"stop", "length", "abort", "error"}) ended_[reason] = 0;
}

void Metrics::count_prompt_tokens(std::int64_t tokens) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += tokens;
}

void Metrics::observe_first_token(double value) {
  const std::lock_guard lock(mutex_);
  ++generation_tokens_;
  first_token_seconds_.observe(value);
}

void Metrics::observe_next_token(double value) {
  const std::lock_guard lock(mutex_);
  ++generation_tokens_;
  inter_token_seconds_.observe(value);
}

void Metrics::observe_end(const std::string& finish_reason, const ChoiceTiming& timing,
                          std::int64_t prompt_tokens, std::int64_t completion_tokens) {
  const std::lock_guard lock(mutex_);
  ++ended_[finish_reason];
  if (completion_tokens == 0) return;
  request_seconds_.observe(seconds(timing.last_token - timing.arrived));
  request_prompt_tokens_.observe(static_cast<double>(prompt_tokens));
  request_generation_tokens_.observe(static_cast<double>(completion_tokens));
  if (completion_tokens > 1) {
    output_token_seconds_.observe(seconds(timing.last_token - timing.first_token) /
                                  static_cast<double>(completion_tokens - 1));
  }
}

void Metrics::count_response(const std::string& route, int status) {
  const std::lock_guard lock(mutex_);
  ++responses_[{route, status}];
}

std::string Metrics::text(const engine::LoopStats& stats) const {
  std::string out;
  write_engine(out, stats);
  write_requests(out);
  return out;
}

void Metrics::write_engine(std::string& out, const engine::LoopStats& stats) const {
  const auto one = [&](const char* name, const char* type, const char* help, auto value) {
    write_head(out, name, type, help);
    out += fmt::format("{}{{{}}} {}\n", name, labels_, value);
  };
  const engine::EngineStats& engine = stats.engine;
  const double usage =
      engine.pages > 0 ? static_cast<double>(engine.pages_in_use) / static_cast<double>(engine.pages) : 0.0;
  one("vllm:num_requests_running", "gauge", "Requests that the engine runs.", engine.running);
  one("vllm:num_requests_waiting", "gauge", "Requests that wait.", stats.waiting);
  one("vllm:kv_cache_usage_perc", "gauge", "Share of the key/value cache in use; 1 is all of it.", usage);
  one("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.",
      engine.prefix_queries);
  one("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.",
      engine.prefix_hits);
  one("vllm:num_preemptions_total", "counter", "Requests that lost their cache and began again.",
      engine.preemptions);
  one("grille:requests_refused_total", "counter", "Requests that found the queue full.", stats.refused);
  one("grille:failed_steps_total", "counter", "Steps of the engine that ended in an error.",
      stats.failed_steps);
  one("grille:engine_steps_total", "counter", "Steps of the engine.", engine.steps);
}

void Metrics::write_requests(std::string& out) const {
  const std::lock_guard lock(mutex_);
  write_head(out, "vllm:prompt_tokens_total", "counter", "Prompt tokens of requests that began.");
  out += fmt::format("vllm:prompt_tokens_total{{{}}} {}\n", labels_, prompt_tokens_);
  write_head(out, "vllm:generation_tokens_total", "counter", "Tokens generated.");
  out += fmt::format("vllm:generation_tokens_total{{{}}} {}\n", labels_, generation_tokens_);
  write_head(out, "vllm:request_success_total", "counter", "Requests that ended, by reason.");
  for (const auto& [reason, count] : ended_)
    out +=
        fmt::format("vllm:request_success_total{{{},finished_reason=\"{}\"}} {}\n", labels_, reason, count);
  write_head(out, "grille:http_responses_total", "counter", "HTTP answers, by route and status.");
  for (const auto& [key, count] : responses_)
    out += fmt::format("grille:http_responses_total{{route=\"{}\",status=\"{}\"}} {}\n", escaped(key.first),
                       key.second, count);
  const auto histogram = [&](const Histogram& values, const char* name, const char* help) {
    write_head(out, name, "histogram", help);
    values.write(out, name, labels_);
  };
  histogram(first_token_seconds_, "vllm:time_to_first_token_seconds",
            "From a request's arrival to its first token.");
  histogram(inter_token_seconds_, "vllm:inter_token_latency_seconds", "Between a request's tokens.");
  histogram(output_token_seconds_, "vllm:request_time_per_output_token_seconds",
            "A request's mean time per token.");
  histogram(request_seconds_, "vllm:e2e_request_latency_seconds",
            "From a request's arrival to its last token.");
  histogram(request_prompt_tokens_, "vllm:request_prompt_tokens", "Prompt tokens of a request.");
  histogram(request_generation_tokens_, "vllm:request_generation_tokens", "Tokens generated for a request.");
}

}  // namespace grille::server
