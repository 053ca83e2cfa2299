#include "grille/benchmark/cuda/search.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "grille/base/error.h"
#include "grille/benchmark/cuda/graph.h"
#include "grille/benchmark/cuda/reference.h"
#include "grille/kernels/cuda/launch.h"

namespace grille::benchmark {
namespace {

using kernels::check_cuda;

struct Timed {
  std::size_t candidate;
  double seconds;
  double error;
  std::unique_ptr<Graph> graph;
};

class Search {
 public:
  Search(Contender& contender, std::int64_t m, std::uint64_t seed, cudaStream_t stream)
      : contender_(contender),
        m_(m),
        stream_(stream),
        last_copy_(contender.copies() - 1),
        first_(contender.product(m, 0), seed, stream),
        last_(contender.product(m, last_copy_), seed + 1, stream) {}

  Choice run(const std::vector<std::string>& names) {
    Choice choice;
    choice.refused = contender_.refused(m_);
    std::vector<Timed> timed;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::optional<double> error = error_of(i);
      if (error && *error > 1) {
        ++choice.wrong;
        choice.error = *error;
        continue;
      }
      std::unique_ptr<Graph> graph = error ? graph_of(i) : nullptr;
      if (!graph) {
        ++choice.refused;
        continue;
      }
      const std::vector<double> seconds = replay_seconds(*graph, 3, stream_);
      const double least = *std::min_element(seconds.begin(), seconds.end()) / launches();
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
  // Nothing if the library refuses to run it.
  std::optional<double> error_of(std::size_t candidate) {
    double worst = 0;
    for (const auto& [copy, reference] : {std::pair(0, &first_), std::pair(last_copy_, &last_)}) {
      const MatrixView y = contender_.product(m_, copy).y;
      const std::size_t bytes = static_cast<std::size_t>(y.rows * y.row_stride) * dtype_size(y.dtype);
      check_cuda(cudaMemsetAsync(y.data, 0xff, bytes, stream_), "cudaMemsetAsync");  // NaN, or -1
      if (!contender_.run(m_, candidate, copy, stream_)) {
        cudaGetLastError();  // what the library left behind
        return std::nullopt;
      }
      worst = std::max(worst, reference->error());
    }
    return worst;
  }

  // Products one after the other, each with the next weight. Nothing if they cannot be captured.
  std::unique_ptr<Graph> graph_of(std::size_t candidate) {
    try {
      return std::make_unique<Graph>(stream_, [&] {
        for (int i = 0; i < launches(); ++i) {
          check(contender_.run(m_, candidate, i % contender_.copies(), stream_), ErrorCode::kDevice,
                "not capturable");
        }
      });
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDevice || cudaStreamSynchronize(stream_) != cudaSuccess) throw;
      cudaGetLastError();
      return nullptr;
    }
  }

  int launches() const { return std::max(contender_.copies(), 8); }

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
      if (!seconds[i].empty()) timed[i].seconds = median(seconds[i]) / launches();
    }
    return std::move(*std::min_element(timed.begin(), timed.end(), faster));
  }

  Contender& contender_;
  std::int64_t m_;
  cudaStream_t stream_;
  int last_copy_;
  Reference first_, last_;
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
