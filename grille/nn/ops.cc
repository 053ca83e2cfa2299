#include "grille/nn/ops.h"

#include "grille/kernels/rms_norm.h"
#include "grille/kernels/rope.h"
#include "grille/kernels/silu_mul.h"
#include "grille/tensors/allocate.h"
#include "grille/tensors/views.h"

namespace grille::nn {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  at::Tensor y = tensors::empty(x.sizes(), x.scalar_type());
  kernels::rms_norm(tensors::matrix_view(x), weight.const_data_ptr<float>(), static_cast<float>(eps),
                    tensors::matrix_view(y));
  return y;
}

at::Tensor silu_mul(const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor y = tensors::empty(gate.sizes(), gate.scalar_type());
  kernels::silu_mul(tensors::matrix_view(gate), tensors::matrix_view(up), tensors::matrix_view(y));
  return y;
}

void apply_rotary(at::Tensor& x, const RotaryStep& step) {
  kernels::rope(tensors::rows_view(x), x.size(2), step.cos.const_data_ptr<float>(),
                step.sin.const_data_ptr<float>());
}

}  // namespace grille::nn
