#include "grille/benchmark/cuda/search.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "grille/benchmark/cuda/candidate_runs.h"

namespace grille::benchmark {
namespace {

struct Timed {
  std::size_t candidate;
  double seconds;
  double error;
  std::unique_ptr<Graph> graph;
};

class Search {
 public:
  Search(Contender& contender, std::int64_t m, std::uint64_t seed, cudaStream_t stream)
      : contender_(contender), m_(m), stream_(stream), runs_(contender, m, seed, stream) {}

  Choice run(const std::vector<std::string>& names) {
    Choice choice;
    choice.refused = contender_.refused(m_);
    std::vector<Timed> timed;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::optional<double> error = runs_.error(i);
      if (error && *error > 1) {
        ++choice.wrong;
        choice.error = *error;
        continue;
      }
      std::unique_ptr<Graph> graph = error ? runs_.graph(i) : nullptr;
      if (!graph) {
        ++choice.refused;
        continue;
      }
      const std::vector<double> seconds = replay_seconds(*graph, 3, stream_);
      const double least = *std::min_element(seconds.begin(), seconds.end()) / runs_.launches();
      timed.push_back({i, least, *error, std::move(graph)});
    }
    choice.right = static_cast<int>(timed.size());
    if (timed.empty()) return choice;
    const Timed best = final_round(std::move(timed));
    choice.name = names[best.candidate];
    choice.candidate = best.candidate;
    choice.seconds = best.seconds;
    choice.error = best.error;
    return choice;
  }

 private:
  // The three fastest once more, in turns.
  Timed final_round(std::vector<Timed> timed) {
    const auto faster = [](const Timed& a, const Timed& b) { return a.seconds < b.seconds; };
    std::sort(timed.begin(), timed.end(), faster);
    timed.resize(std::min<std::size_t>(timed.size(), 3));
    std::vector<std::vector<double>> seconds(timed.size());
    for (int turn = 0; turn < 3 && timed.size() > 1; ++turn) {
      for (std::size_t i = 0; i < timed.size(); ++i) {
        const std::vector<double> more = replay_seconds(*timed[i].graph, 3, stream_);
        seconds[i].insert(seconds[i].end(), more.begin(), more.end());
      }
    }
    for (std::size_t i = 0; i < timed.size(); ++i) {
      if (!seconds[i].empty()) timed[i].seconds = median(seconds[i]) / runs_.launches();
    }
    return std::move(*std::min_element(timed.begin(), timed.end(), faster));
  }

  Contender& contender_;
  std::int64_t m_;
  cudaStream_t stream_;
  CandidateRuns runs_;
};

}  // namespace

Choice search(Contender& contender, std::int64_t m, std::uint64_t seed, cudaStream_t stream) {
  const std::vector<std::string>& names = contender.prepare(m);
  if (names.empty()) {
    Choice none;
    none.refused = contender.refused(m);
    return none;
  }
  return Search(contender, m, seed, stream).run(names);
}

}  // namespace grille::benchmark
