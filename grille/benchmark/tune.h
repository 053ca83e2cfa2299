// `grille bench linear --tune`: which plan of the 2:4 kernels is the fastest for each layer, m and format.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "grille/base/progress.h"
#include "grille/benchmark/linear.h"
#include "grille/benchmark/plan_file.h"

namespace grille::benchmark {

// The candidates of one problem on a device, by their number; 0 is the rule's plan.
class CandidateTimer {
 public:
  virtual ~CandidateTimer() = default;
  // The largest error of its y as a part of the tolerance; above 1 y is wrong. Nothing: it does not run.
  virtual std::optional<double> error(std::size_t candidate) = 0;
  // Seconds of a product, from few runs. Follows error() of the same candidate.
  virtual double estimate(std::size_t candidate) = 0;
  // Seconds of a product of each, from long runs in turns.
  virtual std::vector<double> measure(const std::vector<std::size_t>& candidates) = 0;
};

struct PlanChoice {
  std::size_t best = 0;
  double best_seconds = 0;  // 0: no candidate was right
  double rule_seconds = 0;  // 0: the rule's plan was wrong, or did not run
  std::vector<std::size_t> wrong;
  int right = 0;
  int refused = 0;
};

// Checks and estimates all, measures the best few and the rule's again. The rule's stays unless another is
// faster by more than what two measurements of one plan differ by.
PlanChoice choose_plan(std::size_t candidates, CandidateTimer& timer);

struct TunedPoint {
  std::string format;  // "2:4-fp8"
  LayerShape shape;
  std::int64_t m = 0;
  std::string rule;  // plans as text
  std::string best;
  double rule_us = 0;  // 0: wrong
  double best_us = 0;  // 0: none was right
  int right = 0;
  int wrong = 0;
  int refused = 0;
};

struct TuneResults {
  DeviceRecord device;
  std::vector<TunedPoint> points;
  std::vector<std::string> notes;  // wrong candidates, formats without a kernel
};

// Measures the formats of `options` (baselines are left alone) and adds the plan of each point to `file` as
// soon as it is known. Throws as run_linear() does, and what GrowingPlanFile throws.
TuneResults run_tune(const LinearOptions& options, GrowingPlanFile& file, Progress& progress);

// The header of a file of plans that are measured on `device`.
PlanFile plan_file_header(const DeviceRecord& device);

std::string tune_table(const TuneResults& results);
nlohmann::json tune_json(const TuneResults& results);  // machine, points[], notes[]

}  // namespace grille::benchmark
