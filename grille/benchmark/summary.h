// What many points say together.
#pragma once

#include <string>
#include <vector>

#include "grille/benchmark/linear.h"

namespace grille::benchmark {

// How many times faster `contender` is than `baseline`, over the points where both were measured.
struct Comparison {
  std::string contender;
  std::string baseline;
  int points = 0;
  double arithmetic = 0;  // mean of the ratios
  double geometric = 0;
  double sums = 0;  // ratio of the summed times
  double minimum = 0;
  std::string minimum_at;  // "m=64 gate_up"
};

// The time of all layers together at one m.
struct LayerSum {
  std::string contender;
  std::int64_t m = 0;
  double us = 0;
};

// `points`, and for each point with both cublaslt-fp8-tensorwise and -rowwise the faster of the two once more
// as "cublaslt-fp8-best".
std::vector<LinearPoint> with_best_fp8(std::vector<LinearPoint> points);

// The time of `contender` at the shape and m of `at`, or 0.
double time_of(const std::vector<LinearPoint>& points, const std::string& contender, const LinearPoint& at);

// Every 2:4 contender against every other contender.
std::vector<Comparison> compare(const std::vector<LinearPoint>& points);

// For contenders that were measured at every layer of that m.
std::vector<LayerSum> layer_sums(const std::vector<LinearPoint>& points);

// Mean of a contender's layer sums over m <= 64; 0 if there is none.
double small_batch_us(const std::vector<LayerSum>& sums, const std::string& contender);

// Names that occur in `points`, in their order.
std::vector<std::string> contenders_of(const std::vector<LinearPoint>& points);

}  // namespace grille::benchmark
