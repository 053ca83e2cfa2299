#include "grille/benchmark/cuda/graph.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "grille/kernels/cuda/launch.h"

namespace grille::benchmark {
namespace {

using kernels::check_cuda;

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;

  void record(cudaStream_t stream) { check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  double seconds_after(const Event& earlier) const {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

Graph::Graph(cudaStream_t stream, const std::function<void()>& enqueue) {
  // Relaxed: libraries may load a kernel while they are captured.
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    cudaGraphDestroy(graph);
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  const cudaError_t status = cudaGraphInstantiate(&replay_, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(status, "cudaGraphInstantiate");
}

Graph::~Graph() {
  if (replay_ != nullptr) cudaGraphExecDestroy(replay_);
}

Graph::Graph(Graph&& other) noexcept : replay_(std::exchange(other.replay_, nullptr)) {}

void Graph::launch(cudaStream_t stream) const {
  check_cuda(cudaGraphLaunch(replay_, stream), "cudaGraphLaunch");
}

std::vector<double> replay_seconds(const Graph& graph, int count, cudaStream_t stream,
                                   const std::function<void()>& meanwhile) {
  std::vector<Event> events(static_cast<std::size_t>(count) + 1);
  graph.launch(stream);  // a replay ahead of the first event: the device is busy while the host enqueues
  events[0].record(stream);
  for (std::size_t i = 1; i < events.size(); ++i) {
    graph.launch(stream);
    events[i].record(stream);
  }
  meanwhile();
  check_cuda(cudaStreamSynchronize(stream), "replay");
  std::vector<double> seconds;
  for (std::size_t i = 1; i < events.size(); ++i) seconds.push_back(events[i].seconds_after(events[i - 1]));
  return seconds;
}

double TimedGraph::us_a_product() const { return 1e6 * median(seconds) / products; }

void replay_in_turns(std::vector<TimedGraph>& graphs, double seconds, int turns, cudaStream_t stream,
                     const std::function<void()>& meanwhile) {
  for (int turn = 0; turn < turns; ++turn) {
    for (TimedGraph& timed : graphs) {
      const int count =
          static_cast<int>(std::clamp(std::ceil(seconds / turns / timed.estimate), 1.0, 5000.0));
      const std::vector<double> more = replay_seconds(timed.graph, count, stream, [&] {
        if (turn == turns - 1 && &timed == &graphs.back()) meanwhile();
      });
      timed.seconds.insert(timed.seconds.end(), more.begin(), more.end());
    }
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace grille::benchmark
