#include "grille/compress/calibration_run.h"

#include <algorithm>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"

namespace grille::compress {
namespace {

using models::Slot;

// Stands in for a linear layer and hands its inputs to the statistics.
class ObservedLinear final : public nn::Linear {
 public:
  ObservedLinear(std::unique_ptr<nn::Linear> inner, prune::InputStatistics& statistics)
      : inner_(std::move(inner)), statistics_(statistics) {}
  std::int64_t in_features() const override { return inner_->in_features(); }
  std::int64_t out_features() const override { return inner_->out_features(); }
  at::Tensor forward(const at::Tensor& x) const override {
    statistics_.add(x);
    return inner_->forward(x);
  }
  std::unique_ptr<nn::Linear> release() { return std::move(inner_); }

 private:
  std::unique_ptr<nn::Linear> inner_;
  prune::InputStatistics& statistics_;
};

// Puts observers in front of some slots, and takes them away again.
class ObserverScope {
 public:
  explicit ObserverScope(models::DecoderLayer& layer) : layer_(layer) {}
  ~ObserverScope() {
    for (const Slot slot : observed_) {
      auto& place = layer_.linears[static_cast<std::size_t>(slot)];
      place = static_cast<ObservedLinear&>(*place).release();
    }
  }
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;
  void observe(Slot slot, prune::InputStatistics& statistics) {
    auto& place = layer_.linears[static_cast<std::size_t>(slot)];
    place = std::make_unique<ObservedLinear>(std::move(place), statistics);
    observed_.push_back(slot);
  }

 private:
  models::DecoderLayer& layer_;
  std::vector<Slot> observed_;
};

}  // namespace

CalibrationRun::CalibrationRun(const models::Decoder& model,
                               const std::vector<text::CalibrationWindow>& windows)
    : model_(model) {
  for (const text::CalibrationWindow& window : windows) {
    std::vector<std::int64_t> positions;
    for (const std::int64_t length : window.segment_lengths) {
      for (std::int64_t i = 0; i < length; ++i) positions.push_back(i);
    }
    check(positions.size() == window.ids.size(), ErrorCode::kInternal,
          "calibration: documents cover {} of {} tokens", positions.size(), window.ids.size());
    hidden_.push_back(model.embed(window.ids));
    const bool again = !lengths_.empty() && lengths_.back() == window.segment_lengths;
    rotary_.push_back(again ? rotary_.back() : model.rotary().at_positions(positions));
    lengths_.push_back(window.segment_lengths);
  }
}

at::Tensor CalibrationRun::run(const models::DecoderLayer& layer, std::int64_t index,
                               std::size_t window) const {
  throw_if_interrupted();
  nn::SegmentAttention attention(lengths_[window]);
  return layer.forward(hidden_[window], rotary_[window], model_.config(), index, attention);
}

std::vector<std::unique_ptr<prune::InputStatistics>> CalibrationRun::collect(
    models::DecoderLayer& layer, std::int64_t index, const std::vector<Slot>& slots,
    std::vector<at::Tensor>* outputs) {
  std::vector<std::unique_ptr<prune::InputStatistics>> result;
  ObserverScope observers(layer);
  for (const std::vector<Slot>& group : models::shared_inputs()) {
    const bool wanted = std::any_of(group.begin(), group.end(), [&](Slot slot) {
      return std::find(slots.begin(), slots.end(), slot) != slots.end();
    });
    result.push_back(wanted
                         ? std::make_unique<prune::InputStatistics>(layer.linear(group.front()).in_features())
                         : nullptr);
    if (wanted) observers.observe(group.front(), *result.back());
  }
  for (std::size_t window = 0; window < hidden_.size(); ++window) {
    at::Tensor output = run(layer, index, window);
    if (outputs != nullptr) outputs->push_back(std::move(output));
  }
  return result;
}

void CalibrationRun::advance(const models::DecoderLayer& layer, std::int64_t index) {
  // In place: windows that move through memory with every block would leave gaps of their size.
  for (std::size_t window = 0; window < hidden_.size(); ++window)
    hidden_[window].copy_(run(layer, index, window));
}

}  // namespace grille::compress
