#include "grille/benchmark/tune.h"

#include <algorithm>

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/benchmark/cuda/candidate_runs.h"
#include "grille/benchmark/cuda/device.h"
#include "grille/benchmark/cuda/two_four_sm90.h"
#include "grille/kernels/cuda/launch.h"

namespace grille::benchmark {
namespace {

// The plans of one problem.
class PlanTimer final : public CandidateTimer {
 public:
  PlanTimer(TwoFourPlans& contender, std::int64_t m, const LinearOptions& options, cudaStream_t stream)
      : contender_(contender),
        m_(m),
        options_(options),
        stream_(stream),
        runs_(contender, m, options.seed, stream),
        estimates_(contender.plans(m).size()) {}

  std::optional<double> error(std::size_t candidate) override {
    try {
      const std::optional<double> error = runs_.error(candidate);
      if (error) graph_ = runs_.graph(candidate);
      return error && graph_ ? error : std::nullopt;
    } catch (const Error& error) {
      // A launch that the device refuses leaves the stream as it was; anything else ends the run.
      if (cudaStreamSynchronize(stream_) != cudaSuccess) throw;
      cudaGetLastError();
      refusals_.emplace_back(error.what());
      return std::nullopt;
    }
  }

  double estimate(std::size_t candidate) override {
    estimates_[candidate] = median(replay_seconds(*graph_, kReplays, stream_)) / runs_.launches();
    graph_.reset();
    return estimates_[candidate];
  }

  std::vector<double> measure(const std::vector<std::size_t>& candidates) override {
    std::vector<TimedGraph> graphs;
    for (const std::size_t i : candidates)
      graphs.push_back(timed_products(contender_, m_, i, estimates_[i], true, stream_));
    replay_in_turns(graphs, options_.seconds, options_.turns, stream_, [] {});
    std::vector<double> seconds;
    for (const TimedGraph& graph : graphs) seconds.push_back(1e-6 * graph.us_a_product());
    return seconds;
  }

  // Why candidates did not run.
  const std::vector<std::string>& refusals() const { return refusals_; }

 private:
  static constexpr int kReplays = 5;

  TwoFourPlans& contender_;
  std::int64_t m_;
  const LinearOptions& options_;
  cudaStream_t stream_;
  CandidateRuns runs_;
  std::vector<double> estimates_;  // seconds of a product
  std::unique_ptr<Graph> graph_;   // of the candidate that was checked last
  std::vector<std::string> refusals_;
};

class TuneRun {
 public:
  TuneRun(const LinearOptions& options, GrowingPlanFile& file, Progress& progress)
      : options_(options), file_(file), progress_(progress), nvml_(options.device) {}

  TuneResults run() {
    results_.device = describe_device(options_.device, nvml_, stream_.get());
    file_.begin(plan_file_header(results_.device));
    const std::size_t points = options_.layers.size() * options_.formats.size() * options_.tokens.size();
    progress_.start("tuning", static_cast<std::int64_t>(points), "points");
    for (const LayerShape& shape : options_.layers) {
      for (const std::string& format : options_.formats) tune_layer(shape, format);
    }
    progress_.finish();
    return std::move(results_);
  }

 private:
  void tune_layer(const LayerShape& shape, const std::string& format) {
    LayerData data(shape, options_.tokens.back(), options_.seed, results_.device.l2_bytes, stream_.get());
    const std::unique_ptr<TwoFourPlans> contender =
        make_two_four_plans(contender_info(format), data, options_.device);
    for (const std::int64_t m : options_.tokens) {
      throw_if_interrupted();
      tune_point(*contender, shape, m);
      const TunedPoint& p = results_.points.back();
      progress_.update(++done_, fmt::format("{} m={} {}: {:.2f} us, the rule's {:.2f}", format, m, shape.name,
                                            p.best_us, p.rule_us));
    }
    results_.device.sm_mhz = nvml_.sm_mhz();
  }

  void tune_point(TwoFourPlans& contender, const LayerShape& shape, std::int64_t m) {
    const std::vector<std::string>& names = contender.prepare(m);
    PlanTimer timer(contender, m, options_, stream_.get());
    const PlanChoice choice = choose_plan(names.size(), timer);
    const std::string& format = contender.info().name;
    for (const std::size_t i : choice.wrong)
      results_.notes.push_back(
          fmt::format("{} at m={} {}: wrong result: {}", format, m, shape.name, names[i]));
    for (const std::string& refusal : timer.refusals())
      results_.notes.push_back(fmt::format("{} at m={} {}: {}", format, m, shape.name, refusal));
    TunedPoint point;
    point.format = format;
    point.shape = shape;
    point.m = m;
    point.rule = names.front();
    point.best = choice.right > 0 ? names[choice.best] : "none was right";
    point.rule_us = 1e6 * choice.rule_seconds;
    point.best_us = 1e6 * choice.best_seconds;
    point.right = choice.right;
    point.wrong = static_cast<int>(choice.wrong.size());
    point.refused = choice.refused;
    if (choice.right > 0) {
      file_.add({.entry = {.multiprocessors = results_.device.multiprocessors,
                           .dtype = contender.info().dtype,
                           .n = shape.n,
                           .k = shape.k,
                           .m = m,
                           .plan = contender.plans(m)[choice.best]},
                 .us = point.best_us,
                 .rule_us = point.rule_us});
    }
    results_.points.push_back(std::move(point));
  }

  const LinearOptions& options_;
  GrowingPlanFile& file_;
  Progress& progress_;
  Nvml nvml_;
  OwnStream stream_;
  TuneResults results_;
  std::int64_t done_ = 0;
};

}  // namespace

TuneResults run_tune(const LinearOptions& options, GrowingPlanFile& file, Progress& progress) {
  check_device(options.device);
  const kernels::CurrentDevice current(options.device);
  return TuneRun(options, file, progress).run();
}

}  // namespace grille::benchmark
