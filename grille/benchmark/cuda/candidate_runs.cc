#include "grille/benchmark/cuda/candidate_runs.h"

#include <algorithm>
#include <utility>

#include "grille/base/error.h"
#include "grille/kernels/cuda/launch.h"

namespace grille::benchmark {

using kernels::check_cuda;

CandidateRuns::CandidateRuns(Contender& contender, std::int64_t m, std::uint64_t seed, cudaStream_t stream)
    : contender_(contender),
      m_(m),
      stream_(stream),
      last_copy_(contender.copies() - 1),
      first_(contender.product(m, 0), seed, stream),
      last_(contender.product(m, last_copy_), seed + 1, stream) {}

std::optional<double> CandidateRuns::error(std::size_t candidate) {
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

std::unique_ptr<Graph> CandidateRuns::graph(std::size_t candidate) {
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

int CandidateRuns::launches() const { return std::max(contender_.copies(), 8); }

TimedGraph timed_products(Contender& contender, std::int64_t m, std::size_t candidate, double seconds,
                          bool rotate, cudaStream_t stream) {
  constexpr double kReplaySeconds = 1e-3;
  const int copies = rotate ? contender.copies() : 1;
  const int rounds = static_cast<int>(std::clamp(kReplaySeconds / (seconds * copies), 1.0, 500.0));
  Graph graph(stream, [&] {
    for (int i = 0; i < rounds * copies; ++i) {
      check(contender.run(m, candidate, i % copies, stream), ErrorCode::kDevice,
            "{}: a product failed after it had been checked", contender.info().name);
    }
  });
  return {std::move(graph), rounds * copies, seconds * rounds * copies, {}};
}

}  // namespace grille::benchmark
