// Which of a contender's candidates is right, and the fastest of those.
#pragma once

#include <string>

#include "grille/benchmark/cuda/contender.h"

namespace grille::benchmark {

struct Choice {
  std::string name;  // of the candidate; empty: none was right
  std::size_t candidate = 0;
  double seconds = 0;  // a product, weights from memory; an estimate from few runs
  double error = 0;    // as a part of the tolerance; the worst of two weights
  int right = 0;
  int wrong = 0;    // ran, and gave a wrong y
  int refused = 0;  // not accepted, or did not run
};

// Checks every candidate at m against the reference and times it. Waits for the stream.
Choice search(Contender& contender, std::int64_t m, std::uint64_t seed, cudaStream_t stream);

}  // namespace grille::benchmark
