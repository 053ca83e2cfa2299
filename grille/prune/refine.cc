#include "grille/prune/refine.h"

#include <vector>

#include <ATen/ops/mm.h>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/base/parallel.h"
#include "grille/prune/masked_solve.h"
#include "grille/prune/scores.h"
#include "grille/prune/unit_problem.h"

namespace grille::prune {
namespace {

// A swap has to gain this share of the two weights' own errors: less is rounding, and could go to and fro.
constexpr double kLeastGain = 1e-10;

// One row in work, in units of UnitProblem (H_jj = 1).
struct RowSwaps {
  const double* dense;
  const double* gram;  // [cols, cols]
  std::int64_t cols;
  std::int64_t group;
  bool update_weights;
  double* v;         // the row's weights
  double* gradient;  // (dense - v) H
  bool* keep;

  // Swaps made in one pass over the groups.
  std::int64_t sweep() const {
    std::int64_t swaps = 0;
    for (std::int64_t begin = 0; begin < cols; begin += group) {
      while (swap_best(begin)) ++swaps;
    }
    return swaps;
  }

 private:
  bool swap_best(std::int64_t begin) const {
    double best = 0.0;
    double entering = 0.0;
    std::int64_t out = -1;
    std::int64_t in = -1;
    for (std::int64_t u = begin; u < begin + group; ++u) {
      if (!keep[u]) continue;
      for (std::int64_t p = begin; p < begin + group; ++p) {
        if (keep[p]) continue;
        const double pull = gradient[p] + v[u] * gram[u * cols + p];
        const double x = update_weights ? pull : dense[p];
        const double own = v[u] * v[u] + x * x;
        const double change = 2.0 * v[u] * gradient[u] + own - 2.0 * x * pull;
        if (change < best && change < -kLeastGain * own) {
          best = change;
          entering = x;
          out = u;
          in = p;
        }
      }
    }
    if (out < 0) return false;
    const double* removed = gram + out * cols;
    const double* added = gram + in * cols;
    for (std::int64_t j = 0; j < cols; ++j) gradient[j] += v[out] * removed[j] - entering * added[j];
    v[out] = 0.0;
    v[in] = entering;
    keep[out] = false;
    keep[in] = true;
    return true;
  }
};

std::int64_t sweep_rows(const UnitProblem& unit, const Pattern& pattern, const RefineOptions& options,
                        at::Tensor& v, at::Tensor& keep) {
  throw_if_interrupted();
  const std::int64_t rows = v.size(0);
  const std::int64_t cols = v.size(1);
  at::Tensor gradient = at::mm(unit.weight.sub(v), unit.gram);
  const double* gram = unit.gram.const_data_ptr<double>();
  const double* dense = unit.weight.const_data_ptr<double>();
  double* values = v.mutable_data_ptr<double>();
  double* gradients = gradient.mutable_data_ptr<double>();
  bool* kept = keep.mutable_data_ptr<bool>();
  std::vector<std::int64_t> swaps(static_cast<std::size_t>(rows));
  parallel_for(rows, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t at = row * cols;
      const RowSwaps one{dense + at,  gram,           cols,     pattern.group, options.update_weights,
                         values + at, gradients + at, kept + at};
      for (std::int64_t sweep = 0; sweep < options.sweeps; ++sweep) {
        const std::int64_t made = one.sweep();
        swaps[static_cast<std::size_t>(row)] += made;
        if (made == 0) break;
      }
    }
  });
  std::int64_t total = 0;
  for (const std::int64_t count : swaps) total += count;
  return total;
}

}  // namespace

RefineResult refine(const at::Tensor& dense, const at::Tensor& pruned, const at::Tensor& hessian,
                    const Pattern& pattern, const RefineOptions& options) {
  check(pattern.kind == Pattern::Kind::kGroups, ErrorCode::kInvalidArgument,
        "refine: exchanges weights within the groups of an N:M pattern; an unstructured one has none");
  // Zeros among the kept weights are kept places all the same: exactly `keep` of every group are.
  at::Tensor keep = keep_mask(magnitude_scores(pruned), pattern, Scope::kRow);
  if (!options.update_weights) {
    const UnitProblem unit = unit_problem(dense, hessian);
    at::Tensor v = unit.weight.mul(keep);
    const std::int64_t swaps = sweep_rows(unit, pattern, options, v, keep);
    return {dense.to(at::kFloat).mul(keep), swaps};
  }
  const UnitProblem unit = unit_problem(dense, damped(hessian, options.damping));
  const at::Tensor target = at::mm(unit.weight, unit.gram);
  at::Tensor v = pruned.to(at::kDouble).mul(unit.norm);
  RefineResult result;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    v = masked_solve(target, unit.gram, keep, v, options.solver_iterations);
    const std::int64_t swaps = sweep_rows(unit, pattern, options, v, keep);
    result.swaps += swaps;
    if (swaps == 0) break;
  }
  v = masked_solve(target, unit.gram, keep, v, options.solver_iterations);
  result.weight = unit.to_layer(v);
  return result;
}

}  // namespace grille::prune
