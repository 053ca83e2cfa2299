// Timing by replay of CUDA graphs.
#pragma once

#include <functional>
#include <vector>

#include <cuda_runtime_api.h>

namespace grille::benchmark {

// What `enqueue` puts on `stream`, recorded and not run.
class Graph {
 public:
  // Throws Error{kDevice} if the work cannot be captured.
  Graph(cudaStream_t stream, const std::function<void()>& enqueue);
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&&) = delete;

  void launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t replay_ = nullptr;
};

// Device time of each of `count` replays in seconds, one behind the other without a gap for the host.
// `meanwhile` runs on the host while the device works. Waits for the stream.
std::vector<double> replay_seconds(
    const Graph& graph, int count, cudaStream_t stream, const std::function<void()>& meanwhile = [] {});

// A graph and what its replays took.
struct TimedGraph {
  Graph graph;
  int products = 0;     // in one replay
  double estimate = 0;  // seconds of a replay
  std::vector<double> seconds;

  double us_a_product() const;  // the median
};

// Replays each graph for about `seconds` in all, in `turns` turns, so that a change of the clocks meets all
// graphs alike. `meanwhile` runs once, while the device is busy.
void replay_in_turns(std::vector<TimedGraph>& graphs, double seconds, int turns, cudaStream_t stream,
                     const std::function<void()>& meanwhile);

double median(std::vector<double> values);  // of at least one

}  // namespace grille::benchmark
