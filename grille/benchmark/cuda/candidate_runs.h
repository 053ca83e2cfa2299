// Runs of a contender's candidates: whether they are right, and graphs to time them with.
#pragma once

#include <memory>
#include <optional>

#include "grille/benchmark/cuda/contender.h"
#include "grille/benchmark/cuda/graph.h"
#include "grille/benchmark/cuda/reference.h"

namespace grille::benchmark {

// Of a contender that is prepared for m.
class CandidateRuns {
 public:
  CandidateRuns(Contender& contender, std::int64_t m, std::uint64_t seed, cudaStream_t stream);

  // The largest error of y with the first and with the last weight, as a part of the tolerance. Nothing if
  // the library refuses to run it. Waits for the stream.
  std::optional<double> error(std::size_t candidate);

  // Products one after the other, launches() in all, each with the next weight. Nothing if they cannot be
  // captured.
  std::unique_ptr<Graph> graph(std::size_t candidate);
  int launches() const;

 private:
  Contender& contender_;
  std::int64_t m_;
  cudaStream_t stream_;
  int last_copy_;
  Reference first_, last_;
};

// About a millisecond of products of a candidate that was checked, which take `seconds` each: with all
// weights in turn or always with the first.
TimedGraph timed_products(Contender& contender, std::int64_t m, std::size_t candidate, double seconds,
                          bool rotate, cudaStream_t stream);

}  // namespace grille::benchmark
