// A Prometheus histogram.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace grille::server {

class Histogram {
 public:
  // `bounds`: upper bounds in rising order; one for +Inf is added.
  explicit Histogram(std::vector<double> bounds);
  void observe(double value);
  std::int64_t count() const { return count_; }
  // name_bucket{labels,le="..."}, name_sum and name_count.
  void write(std::string& out, const std::string& name, const std::string& labels) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::int64_t> counts_;  // of each bucket alone
  double sum_ = 0.0;
  std::int64_t count_ = 0;
};

}  // namespace grille::server
