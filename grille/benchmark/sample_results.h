// Made-up results with figures that are easy to check by hand, for tests.
#pragma once

#include "grille/benchmark/linear.h"

namespace grille::benchmark::testing {

inline LinearPoint sample_point(const std::string& contender, const LayerShape& shape, std::int64_t m,
                                double us) {
  LinearPoint point;
  point.contender = contender;
  point.shape = shape;
  point.m = m;
  point.us = us;
  point.us_warm = us / 2;
  point.weight_bytes = static_cast<double>(shape.k * shape.n) * 0.625;
  point.bytes = point.weight_bytes + static_cast<double>(m * (shape.k + 2 * shape.n));
  point.algorithm = "stream <8 & more>";
  point.candidates = 1;
  point.error = 0.25;
  return point;
}

// Two layers, m 16 and 128. "2:4-fp8" takes 10 us at each point, the others what the names say.
inline LinearResults sample_results() {
  LinearResults results;
  DeviceRecord& d = results.device;
  d.name = "A & B";
  d.compute_capability = 90;
  d.multiprocessors = 132;
  d.l2_bytes = 60 << 20;
  d.read_bytes_per_second = 4.5e12;
  d.copy_bytes_per_second = 4.25e12;
  const LayerShape a{"a", 4096, 4096}, b{"b", 4096, 8192};
  for (const std::int64_t m : {16, 128}) {
    for (const LayerShape& shape : {a, b}) {
      const bool first = m == 16 && shape.name == "a";
      results.points.push_back(sample_point("2:4-fp8", shape, m, 10));
      results.points.push_back(sample_point("cublaslt-fp8-tensorwise", shape, m, first ? 20 : 15));
      results.points.push_back(sample_point("cublaslt-fp8-rowwise", shape, m, first ? 40 : 12));
      if (m == 16) results.points.push_back(sample_point("cusparselt-fp8", shape, m, first ? 5 : 20));
    }
  }
  results.chains.push_back({"2:4-fp8", 16, 18.5});
  results.notes.push_back("cublaslt-bf16: the library is <not> there");
  return results;
}

}  // namespace grille::benchmark::testing
