#include "grille/compress/prune_layer.h"

#include "grille/base/error.h"
#include "grille/prune/admm.h"
#include "grille/prune/alps.h"
#include "grille/prune/refine.h"
#include "grille/prune/scores.h"
#include "grille/prune/sparsegpt.h"

namespace grille::compress {
namespace {

PrunedLayer by_method(const at::Tensor& dense, const PruneOptions& options,
                      const prune::InputStatistics* statistics, const at::Tensor& hessian) {
  const prune::Pattern& pattern = options.pattern;
  const auto kept = [&](const at::Tensor& scores, prune::Scope scope) {
    return PrunedLayer{dense.mul(prune::keep_mask(scores, pattern, scope)), std::nullopt, std::nullopt};
  };
  switch (options.method) {
    case Method::kMagnitude: return kept(prune::magnitude_scores(dense), prune::Scope::kMatrix);
    case Method::kWanda:
      return kept(prune::wanda_scores(dense, statistics->mean_squares()), prune::Scope::kRow);
    case Method::kRia:
      return kept(prune::ria_scores(dense, statistics->mean_squares()), prune::Scope::kMatrix);
    case Method::kSparseGpt: {
      const auto result = prune::sparsegpt(dense, hessian, pattern, {*damping_of(options), 128});
      return {result.weight, result.damping, std::nullopt};
    }
    case Method::kAdmm: {
      const double damping = *damping_of(options);
      return {prune::admm(dense, hessian, pattern, {.damping = damping}), damping, std::nullopt};
    }
    case Method::kAlps: {
      const double damping = *damping_of(options);
      return {prune::alps(dense, hessian, pattern, {.damping = damping}), damping, std::nullopt};
    }
  }
  fail(ErrorCode::kInternal, "prune: unknown method");
}

}  // namespace

PrunedLayer prune_layer(const at::Tensor& dense, const PruneOptions& options,
                        const prune::InputStatistics* statistics, const at::Tensor& hessian) {
  PrunedLayer layer = by_method(dense, options, statistics, hessian);
  if (options.refine == Refine::kNone) return layer;
  prune::RefineOptions refine;
  refine.update_weights = options.refine == Refine::kWeights;
  if (refine.update_weights) refine.damping = *damping_of(options);
  const prune::RefineResult refined = prune::refine(dense, layer.weight, hessian, options.pattern, refine);
  if (refine.update_weights && !layer.damping) layer.damping = refine.damping;
  layer.weight = refined.weight;
  layer.swaps = refined.swaps;
  return layer;
}

}  // namespace grille::compress
