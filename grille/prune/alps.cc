#include "grille/prune/alps.h"

#include <algorithm>
#include <tuple>

#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>

#include "grille/base/interrupt.h"
#include "grille/prune/masked_solve.h"
#include "grille/prune/scores.h"
#include "grille/prune/unit_problem.h"

namespace grille::prune {
namespace {

constexpr std::int64_t kPenaltyEvery = 3;  // iterations
constexpr double kLargestPenalty = 1e6;
constexpr std::int64_t kSettleAfter = 30;  // iterations, from where a change below kSettled ends them
constexpr double kSettled = 0.0003;        // of the kept weights

class Iterations {
 public:
  Iterations(const UnitProblem& unit, const Pattern& pattern, const AlpsOptions& options)
      : unit_(unit), pattern_(pattern), penalty_(options.penalty), target_(at::mm(unit.weight, unit.gram)) {
    std::tie(values_, vectors_) = at::linalg_eigh(unit.gram);
    invert();
    restart();
    mask_ = largest(unit.weight);
    last_mask_ = mask_;
  }

  // Returns false when the mask has settled.
  bool step(std::int64_t index) {
    b_ = at::mm(target_.sub(multiplier_).add_(d_, penalty_), inverse_);
    const at::Tensor moved = b_.add(multiplier_, 1.0 / penalty_);
    mask_ = largest(moved);
    d_ = moved.mul(mask_);
    multiplier_.add_(b_.sub(d_), penalty_);
    return (index + 1) % kPenaltyEvery != 0 || adjust(index);
  }

  const at::Tensor& target() const { return target_; }
  const at::Tensor& weights() const { return b_; }
  at::Tensor largest(const at::Tensor& values) const {
    return keep_mask(values.abs().to(at::kFloat), pattern_, Scope::kMatrix);
  }

 private:
  void restart() {
    b_ = unit_.weight;
    d_ = b_.mul(largest(b_));
    multiplier_ = at::zeros_like(b_);
  }

  void invert() { inverse_ = at::mm(vectors_.div(values_.add(penalty_)), vectors_.t()); }

  bool adjust(std::int64_t index) {
    const std::int64_t changed = mask_.ne(last_mask_).sum().item<std::int64_t>();
    const double share = static_cast<double>(changed) / mask_.sum().item<double>();
    last_mask_ = mask_;
    if (share > 0.1) {
      penalty_ *= 1.3;
      moving_ = true;
    } else if (share > 0.005) {
      penalty_ *= 1.2;
      moving_ = true;
    } else if (changed > 0 && moving_) {
      penalty_ *= 1.1;
    } else {
      if (moving_) return false;
      penalty_ /= 5.0;
      if (changed > 0) restart();
    }
    penalty_ = std::min(penalty_, kLargestPenalty);
    invert();
    return index < kSettleAfter || share >= kSettled;
  }

  const UnitProblem& unit_;
  const Pattern& pattern_;
  double penalty_;
  bool moving_ = false;  // the mask has changed by more than 0.5 % at once
  at::Tensor target_, values_, vectors_, inverse_;
  at::Tensor b_, d_, multiplier_;
  at::Tensor mask_, last_mask_;
};

}  // namespace

at::Tensor alps(const at::Tensor& weight, const at::Tensor& hessian, const Pattern& pattern,
                const AlpsOptions& options) {
  const UnitProblem unit = unit_problem(weight, damped(hessian, options.damping));
  Iterations iterations(unit, pattern, options);
  for (std::int64_t index = 0; index < options.iterations; ++index) {
    throw_if_interrupted();
    if (!iterations.step(index)) break;
  }
  const at::Tensor& weights = iterations.weights();
  return unit.to_layer(masked_solve(iterations.target(), unit.gram, iterations.largest(weights), weights,
                                    options.solver_iterations));
}

}  // namespace grille::prune
