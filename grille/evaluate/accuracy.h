// Accuracies and their standard errors, as lm-eval 0.4.13 computes them (api/metrics.py).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace grille::evaluate {

struct Accuracy {
  std::int64_t correct = 0;
  std::int64_t questions = 0;

  void add(bool right) {
    correct += right ? 1 : 0;
    ++questions;
  }
  // Questions: at least one.
  double mean() const { return static_cast<double>(correct) / static_cast<double>(questions); }
  // The sample's standard deviation over sqrt(questions); of one question there is none.
  std::optional<double> standard_error() const;
};

// A mean and its standard error over several sets of questions, none of them empty.
struct Estimate {
  double mean = 0.0;
  std::optional<double> standard_error;  // none where a set's own is missing or there is no spread to pool
};

// Every question counts alike; the standard error is that of the pooled variance within the sets:
//   sqrt(sum of n_i (n_i - 1) e_i^2 / (N - sets) / N).
Estimate mean_of_questions(std::span<const Accuracy> sets);

// Every set counts alike: sqrt(sum of e_i^2) / sets.
Estimate mean_of_sets(std::span<const Accuracy> sets);

}  // namespace grille::evaluate
