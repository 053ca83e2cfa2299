#include "grille/benchmark/linear.h"

#include <algorithm>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/benchmark/cuda/candidate_runs.h"
#include "grille/benchmark/cuda/device.h"
#include "grille/benchmark/cuda/registry.h"
#include "grille/benchmark/cuda/search.h"
#include "grille/kernels/cuda/launch.h"

namespace grille::benchmark {
namespace {

// A layer's data and contenders, and which candidate each contender runs at each m.
struct Layer {
  LayerData data;
  std::vector<std::unique_ptr<Contender>> contenders = {};
  std::map<std::pair<std::string, std::int64_t>, Choice> choices = {};

  const Choice* choice(const std::string& contender, std::int64_t m) const {
    const auto found = choices.find({contender, m});
    return found == choices.end() || found->second.name.empty() ? nullptr : &found->second;
  }
};

class LinearRun {
 public:
  LinearRun(const LinearOptions& options, Progress& progress)
      : options_(options),
        progress_(progress),
        nvml_(options.device),
        registry_(options.device, options.plans.get()) {}

  LinearResults run() {
    results_.device = describe_device(options_.device, nvml_, stream_.get());
    note_foreign_plans();
    const std::int64_t points = static_cast<std::int64_t>(options_.layers.size() * options_.tokens.size());
    progress_.start("measuring", points, "points");
    for (const LayerShape& shape : options_.layers) measure_layer(shape);
    if (options_.chain) measure_chains();
    progress_.finish();
    registry_.describe(results_.device);
    if (!clocks_.empty()) results_.device.sm_mhz = median(clocks_);
    return std::move(results_);
  }

 private:
  void note_foreign_plans() {
    const int here = results_.device.multiprocessors;
    if (!options_.plans || options_.plans->entries().empty()) return;
    const auto& entries = options_.plans->entries();
    const bool some = std::any_of(entries.begin(), entries.end(),
                                  [&](const auto& entry) { return entry.multiprocessors == here; });
    if (!some) note(fmt::format("plans: the file has none for a device of {} multiprocessors", here));
  }

  void note(const std::string& line) {
    auto& notes = results_.notes;
    if (std::find(notes.begin(), notes.end(), line) == notes.end()) notes.push_back(line);
  }

  void measure_layer(const LayerShape& shape) {
    if (!options_.chain) layers_.clear();  // only chains need all layers at once
    layers_.push_back(std::make_unique<Layer>(Layer{
        LayerData(shape, options_.tokens.back(), options_.seed, results_.device.l2_bytes, stream_.get())}));
    Layer& layer = *layers_.back();
    std::vector<std::string> names = options_.formats;
    names.insert(names.end(), options_.baselines.begin(), options_.baselines.end());
    for (const std::string& name : names) {
      try {
        layer.contenders.push_back(registry_.make(contender_info(name), layer.data));
        const std::string limits = layer.contenders.back()->limits();
        if (!limits.empty()) note(fmt::format("{}: {}", name, limits));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUnsupported && error.code() != ErrorCode::kNotFound) throw;
        note(fmt::format("{}: {}", name, error.what()));
      }
    }
    for (const std::int64_t m : options_.tokens) {
      throw_if_interrupted();
      measure_point(layer, m);
      progress_.update(++done_, fmt::format("m={} {}", m, shape.name));
    }
  }

  void choose(Layer& layer, Contender& contender, std::int64_t m) {
    const std::string& name = contender.info().name;
    const std::string place = fmt::format("{} at m={} {}", name, m, layer.data.shape().name);
    const Choice choice = search(contender, m, options_.seed, stream_.get());
    const bool ours = !contender.info().baseline();
    check(!(ours && choice.wrong > 0), ErrorCode::kInternal, "{}: wrong result, {:.2f} times the tolerance",
          place, choice.error);
    if (choice.wrong > 0)
      note(fmt::format("{}: {} algorithms gave wrong results and were left out", place, choice.wrong));
    if (choice.name.empty())
      note(fmt::format("{}: no algorithm left; {} were refused", place, choice.refused));
    layer.choices[{name, m}] = choice;
  }

  void replay(std::vector<TimedGraph>& graphs) {
    replay_in_turns(graphs, options_.seconds, options_.turns, stream_.get(), [&] {
      const double mhz = nvml_.sm_mhz();
      if (mhz > 0) clocks_.push_back(mhz);
    });
  }

  void measure_point(Layer& layer, std::int64_t m) {
    for (const auto& contender : layer.contenders) choose(layer, *contender, m);
    std::vector<Contender*> running;
    std::vector<TimedGraph> graphs;  // cold and warm of each
    for (const auto& contender : layer.contenders) {
      const Choice* choice = layer.choice(contender->info().name, m);
      if (choice == nullptr) continue;
      running.push_back(contender.get());
      for (const bool rotate : {true, false}) {
        graphs.push_back(
            timed_products(*contender, m, choice->candidate, choice->seconds, rotate, stream_.get()));
      }
    }
    replay(graphs);
    for (std::size_t i = 0; i < running.size(); ++i) {
      LinearPoint point = described(layer, *running[i], m);
      point.us = graphs[2 * i].us_a_product();
      point.us_warm = graphs[2 * i + 1].us_a_product();
      results_.points.push_back(std::move(point));
    }
  }

  static LinearPoint described(Layer& layer, Contender& contender, std::int64_t m) {
    const Choice& choice = *layer.choice(contender.info().name, m);
    const Product product = contender.product(m, 0);
    const auto bytes = [](const ConstMatrixView& view) {
      return static_cast<double>(view.rows * view.cols) * static_cast<double>(dtype_size(view.dtype));
    };
    LinearPoint point;
    point.contender = contender.info().name;
    point.shape = layer.data.shape();
    point.m = m;
    point.weight_bytes = contender.weight_bytes();
    point.bytes = point.weight_bytes + bytes(product.x) + bytes(product.y) +
                  (product.x_scale.per_row ? 4.0 * static_cast<double>(m) : 0);
    point.algorithm = choice.name;
    point.candidates = choice.right;
    point.wrong = choice.wrong;
    point.refused = choice.refused;
    point.error = choice.error;
    return point;
  }

  static Contender* find(const Layer& layer, const std::string& name) {
    for (const auto& contender : layer.contenders) {
      if (contender->info().name == name) return contender.get();
    }
    return nullptr;
  }

  // All layers one after the other, each with its next weight; nothing if one of them was not measured.
  void add_chain(const std::string& name, std::int64_t m, std::vector<TimedGraph>& graphs,
                 std::vector<LinearChain>& chains) {
    double seconds = 0;
    int rounds = 1;
    for (const auto& layer : layers_) {
      const Choice* choice = layer->choice(name, m);
      if (choice == nullptr) return;
      seconds += choice->seconds;
      rounds = std::max(rounds, find(*layer, name)->copies());
    }
    Graph graph(stream_.get(), [&] {
      for (int i = 0; i < rounds; ++i) {
        for (const auto& layer : layers_) {
          Contender& contender = *find(*layer, name);
          check(contender.run(m, layer->choice(name, m)->candidate, i % contender.copies(), stream_.get()),
                ErrorCode::kDevice, "{}: a product failed after it had been checked", name);
        }
      }
    });
    graphs.push_back({std::move(graph), rounds, seconds * rounds, {}});
    chains.push_back({name, m, 0});
  }

  void measure_chains() {
    for (const std::int64_t m : options_.tokens) {
      throw_if_interrupted();
      std::vector<TimedGraph> graphs;
      std::vector<LinearChain> chains;
      for (const auto& contender : layers_.front()->contenders)
        add_chain(contender->info().name, m, graphs, chains);
      replay(graphs);
      for (std::size_t i = 0; i < chains.size(); ++i) {
        chains[i].us = graphs[i].us_a_product();
        results_.chains.push_back(chains[i]);
      }
    }
  }

  const LinearOptions& options_;
  Progress& progress_;
  Nvml nvml_;
  OwnStream stream_;
  Registry registry_;
  LinearResults results_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<double> clocks_;
  std::int64_t done_ = 0;
};

}  // namespace

LinearResults run_linear(const LinearOptions& options, Progress& progress) {
  check_device(options.device);
  const kernels::CurrentDevice current(options.device);
  return LinearRun(options, progress).run();
}

}  // namespace grille::benchmark
