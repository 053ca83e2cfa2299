#include "grille/evaluate/accuracy.h"

#include <cmath>

namespace grille::evaluate {

std::optional<double> Accuracy::standard_error() const {
  if (questions < 2) return std::nullopt;
  const double p = mean();
  return std::sqrt(p * (1.0 - p) / static_cast<double>(questions - 1));
}

Estimate mean_of_questions(std::span<const Accuracy> sets) {
  Accuracy all;
  double squares = 0.0;
  for (const Accuracy& set : sets) {
    all.correct += set.correct;
    all.questions += set.questions;
    const double n = static_cast<double>(set.questions);
    squares += n * set.mean() * (1.0 - set.mean());  // n (n - 1) e^2
  }
  const std::int64_t freedom = all.questions - static_cast<std::int64_t>(sets.size());
  Estimate result{all.mean(), std::nullopt};
  if (freedom > 0) {
    result.standard_error =
        std::sqrt(squares / static_cast<double>(freedom) / static_cast<double>(all.questions));
  }
  return result;
}

Estimate mean_of_sets(std::span<const Accuracy> sets) {
  const double count = static_cast<double>(sets.size());
  Estimate result;
  double squares = 0.0;
  bool known = true;
  for (const Accuracy& set : sets) {
    result.mean += set.mean() / count;
    known = known && set.standard_error().has_value();
    squares += std::pow(set.standard_error().value_or(0.0), 2);
  }
  if (known) result.standard_error = std::sqrt(squares) / count;
  return result;
}

}  // namespace grille::evaluate
