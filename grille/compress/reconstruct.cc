#include "grille/compress/reconstruct.h"

#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>

#include "grille/base/interrupt.h"
#include "grille/models/differentiable_block.h"

namespace grille::compress {
namespace {

using models::Slot;

constexpr std::size_t kHoldOutEvery = 8;
constexpr std::int64_t kPatience = 2;  // epochs

// One weight in training. Masked entries have no gradient, so that their moments and steps are 0.
class Trained {
 public:
  Trained(at::Tensor& weight, const at::Tensor& start)
      : weight_(weight), keep_(start.ne(0)), mean_(at::zeros_like(start)), square_(at::zeros_like(start)) {
    weight_ = start.clone();
    weight_.set_requires_grad(true);
  }

  // One step of Adam (arXiv 1412.6980), the `step`th.
  void update(double rate, std::int64_t step) {
    constexpr double kMeanDecay = 0.9;
    constexpr double kSquareDecay = 0.999;
    constexpr double kEpsilon = 1e-8;
    const at::NoGradGuard no_gradient;
    const at::Tensor gradient = weight_.grad().mul(keep_);
    mean_.mul_(kMeanDecay).add_(gradient, 1.0 - kMeanDecay);
    square_.mul_(kSquareDecay).addcmul_(gradient, gradient, 1.0 - kSquareDecay);
    const double steps = static_cast<double>(step);
    const double scale = rate / (1.0 - std::pow(kMeanDecay, steps));
    const double root = std::sqrt(1.0 - std::pow(kSquareDecay, steps));
    weight_.addcdiv_(mean_, square_.sqrt().div_(root).add_(kEpsilon), -scale);
    weight_.mutable_grad().zero_();
  }

  at::Tensor values() const { return weight_.detach().clone(); }

 private:
  at::Tensor& weight_;  // the block's
  at::Tensor keep_, mean_, square_;
};

class Training {
 public:
  Training(const models::DecoderLayer& layer, const CalibrationRun& calibration,
           const std::vector<at::Tensor>& targets, const std::map<Slot, at::Tensor>& weights)
      : calibration_(calibration), targets_(targets), block_(layer) {
    for (const auto& [slot, start] : weights)
      trained_.emplace(slot, Trained(block_.weights[static_cast<std::size_t>(slot)], start));
  }

  void epoch(const std::vector<std::size_t>& order, const ReconstructOptions& options, std::int64_t& step) {
    const double steps = static_cast<double>(options.epochs) * static_cast<double>(order.size());
    for (const std::size_t window : order) {
      loss(window).backward();
      const double rate = options.rate * (1.0 - static_cast<double>(step) / steps);  // falls to 0
      ++step;
      for (auto& [slot, trained] : trained_) trained.update(rate, step);
    }
  }

  // Root of the mean loss of `windows`.
  double error(const std::vector<std::size_t>& windows) const {
    const at::NoGradGuard no_gradient;
    double sum = 0.0;
    for (const std::size_t window : windows) sum += loss(window).item<double>();
    return std::sqrt(sum / static_cast<double>(windows.size()));
  }

  std::map<Slot, at::Tensor> values() const {
    std::map<Slot, at::Tensor> values;
    for (const auto& [slot, trained] : trained_) values.emplace(slot, trained.values());
    return values;
  }

 private:
  // Copies: what inference mode made cannot be kept for a gradient.
  at::Tensor loss(std::size_t window) const {
    throw_if_interrupted();
    const CalibrationRun::Window inputs = calibration_.window(window);
    const at::Tensor target = targets_[window].to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    const nn::RotaryStep rotary{inputs.rotary.cos.clone(), inputs.rotary.sin.clone()};
    const at::Tensor hidden = inputs.hidden.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    const at::Tensor output = block_.forward(hidden, rotary, calibration_.config(), inputs.lengths);
    const at::Tensor size = target.square().sum(1).clamp_min_(1e-12);  // of a token that is 0 in all features
    return output.sub(target).square().sum(1).div(size).mean();
  }

  const CalibrationRun& calibration_;
  const std::vector<at::Tensor>& targets_;
  models::DifferentiableBlock block_;
  std::map<Slot, Trained> trained_;
};

// Fisher and Yates; std::shuffle is not the same everywhere.
void shuffle(std::vector<std::size_t>& order, std::mt19937_64& random) {
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
}

}  // namespace

bool is_held_out(std::size_t window, std::size_t windows) {
  return windows < kHoldOutEvery ? window + 1 == windows : window % kHoldOutEvery == kHoldOutEvery - 1;
}

Reconstruction reconstruct(const models::DecoderLayer& layer, std::int64_t index,
                           const CalibrationRun& calibration, const std::vector<at::Tensor>& targets,
                           const ReconstructOptions& options, std::uint64_t seed,
                           std::map<Slot, at::Tensor>& weights) {
  const c10::InferenceMode gradients(false);
  std::vector<std::size_t> order;
  std::vector<std::size_t> held_out;
  for (std::size_t window = 0; window < targets.size(); ++window)
    (is_held_out(window, targets.size()) ? held_out : order).push_back(window);

  Training training(layer, calibration, targets, weights);
  Reconstruction result;
  result.error_before = result.error = training.error(held_out);
  std::mt19937_64 random(seed * 1'000'003 + static_cast<std::uint64_t>(index));
  std::int64_t step = 0;
  std::int64_t best = 0;
  while (result.epochs < options.epochs && result.epochs - best < kPatience) {
    shuffle(order, random);
    training.epoch(order, options, step);
    ++result.epochs;
    const double error = training.error(held_out);
    if (error >= result.error) continue;
    result.error = error;
    best = result.epochs;
    weights = training.values();
  }
  return result;
}

}  // namespace grille::compress
