#include "grille/prune/masked_solve.h"

#include <ATen/ops/mm.h>

#include "grille/base/interrupt.h"

namespace grille::prune {
namespace {

at::Tensor row_dots(const at::Tensor& a, const at::Tensor& b) { return a.mul(b).sum(1, /*keepdim=*/true); }

// a / b, 0 where b is 0: such a row has nothing left to gain.
at::Tensor quotient(const at::Tensor& a, const at::Tensor& b) { return a.div(b).masked_fill_(b.le(0), 0.0); }

}  // namespace

at::Tensor masked_solve(const at::Tensor& target, const at::Tensor& gram, const at::Tensor& keep,
                        const at::Tensor& start, std::int64_t iterations) {
  at::Tensor x = start.mul(keep);
  at::Tensor residual = target.sub(at::mm(x, gram)).mul_(keep);
  at::Tensor direction = residual.clone();
  at::Tensor squares = row_dots(residual, residual);
  for (std::int64_t i = 0; i < iterations; ++i) {
    throw_if_interrupted();
    const at::Tensor product = at::mm(direction, gram).mul_(keep);
    const at::Tensor step = quotient(squares, row_dots(direction, product));
    x.add_(direction.mul(step));
    residual.sub_(product.mul_(step));
    const at::Tensor next = row_dots(residual, residual);
    direction.mul_(quotient(next, squares)).add_(residual);
    squares = next;
  }
  return x;
}

}  // namespace grille::prune
