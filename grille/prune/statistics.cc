#include "grille/prune/statistics.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/isfinite.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/zeros.h>

#include "grille/base/error.h"

namespace grille::prune {
namespace {
constexpr std::int64_t kBlock = 512;  // columns of one block of the triangle
}

InputStatistics::InputStatistics(std::int64_t features)
    : gram_(at::zeros({features, features}, at::kDouble)) {}

void InputStatistics::add(const at::Tensor& x) {
  const std::int64_t features = gram_.size(0);
  check(x.dim() == 2 && x.size(1) == features, ErrorCode::kInternal,
        "statistics: expected [tokens, {}] inputs", features);
  const at::Tensor inputs = x.to(at::kDouble);
  for (std::int64_t begin = 0; begin < features; begin += kBlock) {
    const std::int64_t rows = std::min(kBlock, features - begin);
    at::Tensor block = gram_.narrow(0, begin, rows).narrow(1, begin, features - begin);
    block.addmm_(inputs.narrow(1, begin, rows).t(), inputs.narrow(1, begin, features - begin));
  }
  ++sequences_;
}

at::Tensor InputStatistics::hessian() const {
  check(sequences_ > 0, ErrorCode::kInternal, "statistics: no calibration sequence was seen");
  const at::Tensor upper = at::triu(gram_, 0);
  return upper.add(at::triu(gram_, 1).t()).mul_(2.0 / static_cast<double>(sequences_));
}

at::Tensor InputStatistics::mean_squares() const {
  check(sequences_ > 0, ErrorCode::kInternal, "statistics: no calibration sequence was seen");
  return gram_.diagonal().div(static_cast<double>(sequences_)).to(at::kFloat);
}

bool InputStatistics::finite() const { return at::isfinite(gram_.diagonal()).all().item<bool>(); }

double relative_error(const at::Tensor& weight, const at::Tensor& pruned, const at::Tensor& hessian) {
  const at::Tensor dense = weight.to(at::kDouble);
  const at::Tensor difference = dense.sub(pruned);
  const double error = at::mm(difference, hessian).mul_(difference).sum().item<double>();
  const double norm = at::mm(dense, hessian).mul_(dense).sum().item<double>();
  return norm > 0 ? std::sqrt(std::max(error, 0.0) / norm) : 0.0;
}

}  // namespace grille::prune
