#include "grille/benchmark/summary.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace grille::benchmark {
namespace {

constexpr const char* kBestFp8 = "cublaslt-fp8-best";

bool is_sparse(const std::string& name) { return name != kBestFp8 && contender_info(name).sparse; }

Comparison compare_two(const std::vector<LinearPoint>& points, const std::string& contender,
                       const std::string& baseline) {
  Comparison c;
  c.contender = contender;
  c.baseline = baseline;
  double log_sum = 0, sum = 0, our_us = 0, their_us = 0;
  for (const LinearPoint& point : points) {
    if (point.contender != contender) continue;
    const double theirs = time_of(points, baseline, point);
    if (theirs <= 0 || point.us <= 0) continue;
    const double ratio = theirs / point.us;
    if (c.points == 0 || ratio < c.minimum) {
      c.minimum = ratio;
      c.minimum_at = fmt::format("m={} {}", point.m, point.shape.name);
    }
    ++c.points;
    sum += ratio;
    log_sum += std::log(ratio);
    our_us += point.us;
    their_us += theirs;
  }
  if (c.points == 0) return c;
  c.arithmetic = sum / c.points;
  c.geometric = std::exp(log_sum / c.points);
  c.sums = their_us / our_us;
  return c;
}

}  // namespace

std::vector<std::string> contenders_of(const std::vector<LinearPoint>& points) {
  std::vector<std::string> names;
  for (const LinearPoint& point : points) {
    if (std::find(names.begin(), names.end(), point.contender) == names.end())
      names.push_back(point.contender);
  }
  return names;
}

double time_of(const std::vector<LinearPoint>& points, const std::string& contender, const LinearPoint& at) {
  for (const LinearPoint& point : points) {
    if (point.contender == contender && point.m == at.m && point.shape == at.shape) return point.us;
  }
  return 0;
}

std::vector<LinearPoint> with_best_fp8(std::vector<LinearPoint> points) {
  std::vector<LinearPoint> best;
  for (const LinearPoint& point : points) {
    if (point.contender != "cublaslt-fp8-tensorwise") continue;
    for (const LinearPoint& other : points) {
      if (other.contender != "cublaslt-fp8-rowwise" || other.m != point.m || !(other.shape == point.shape))
        continue;
      best.push_back(other.us < point.us ? other : point);
      best.back().contender = kBestFp8;
    }
  }
  points.insert(points.end(), best.begin(), best.end());
  return points;
}

std::vector<Comparison> compare(const std::vector<LinearPoint>& measured) {
  const std::vector<LinearPoint> points = with_best_fp8(measured);
  const std::vector<std::string> names = contenders_of(points);
  std::vector<Comparison> comparisons;
  for (const std::string& contender : names) {
    if (!is_sparse(contender)) continue;
    for (const std::string& baseline : names) {
      if (baseline == contender) continue;
      Comparison c = compare_two(points, contender, baseline);
      if (c.points > 0) comparisons.push_back(std::move(c));
    }
  }
  return comparisons;
}

std::vector<LayerSum> layer_sums(const std::vector<LinearPoint>& measured) {
  const std::vector<LinearPoint> points = with_best_fp8(measured);
  std::vector<LayerShape> shapes;
  std::vector<std::int64_t> tokens;
  for (const LinearPoint& point : points) {
    if (std::find(shapes.begin(), shapes.end(), point.shape) == shapes.end()) shapes.push_back(point.shape);
    if (std::find(tokens.begin(), tokens.end(), point.m) == tokens.end()) tokens.push_back(point.m);
  }
  std::vector<LayerSum> sums;
  for (const std::string& contender : contenders_of(points)) {
    for (const std::int64_t m : tokens) {
      LayerSum sum{contender, m, 0};
      bool whole = true;
      for (const LayerShape& shape : shapes) {
        LinearPoint at;
        at.m = m;
        at.shape = shape;
        const double us = time_of(points, contender, at);
        whole = whole && us > 0;
        sum.us += us;
      }
      if (whole) sums.push_back(std::move(sum));
    }
  }
  return sums;
}

double small_batch_us(const std::vector<LayerSum>& sums, const std::string& contender) {
  double total = 0;
  int count = 0;
  for (const LayerSum& sum : sums) {
    if (sum.contender != contender || sum.m > 64) continue;
    total += sum.us;
    ++count;
  }
  return count > 0 ? total / count : 0;
}

}  // namespace grille::benchmark
