// The interface behind which every kernel is measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "grille/base/matrix_view.h"
#include "grille/benchmark/contenders.h"

namespace grille::benchmark {

// One float a row, or one for all.
struct ScaleView {
  const float* data = nullptr;  // null: 1
  bool per_row = false;
};

// What y should be, in plain matrices on the device: y = (x W^T) * x_scale * weight_scale.
struct Product {
  ConstMatrixView x;       // [m, k]
  ConstMatrixView weight;  // [n, k], zeros included
  ScaleView x_scale;
  ScaleView weight_scale;
  MatrixView y;  // [m, n]
};

// One way of computing y = x W^T at one layer shape, with `copies()` different weights that together exceed
// the L2 cache. A contender may have several candidates for the work (a library's algorithms), which are
// checked and timed by the caller.
class Contender {
 public:
  explicit Contender(const ContenderInfo& info) : info_(info) {}
  virtual ~Contender() = default;

  const ContenderInfo& info() const { return info_; }
  virtual double weight_bytes() const = 0;  // of one weight as it is stored, metadata and scales included
  virtual int copies() const = 0;
  // Plans for m tokens (cached: a second call is free) and names the candidates. Empty: there is none.
  virtual const std::vector<std::string>& prepare(std::int64_t m) = 0;
  // Candidates that the library did not accept for m, known after prepare().
  virtual int refused(std::int64_t) const { return 0; }
  // What of its library was not tried, and why; for the notes of a run. Empty: nothing.
  virtual std::string limits() const { return ""; }
  // Enqueues one product on `stream`; capturable. False: the library refused this candidate.
  virtual bool run(std::int64_t m, std::size_t candidate, int copy, cudaStream_t stream) = 0;
  virtual Product product(std::int64_t m, int copy) = 0;

 private:
  ContenderInfo info_;
};

}  // namespace grille::benchmark
