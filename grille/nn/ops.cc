#include "grille/nn/ops.h"

#include "grille/kernels/rms_norm.h"
#include "grille/kernels/rope.h"
#include "grille/kernels/silu_mul.h"
#include "grille/tensors/allocate.h"
#include "grille/tensors/device.h"
#include "grille/tensors/views.h"

namespace grille::nn {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  at::Tensor y = tensors::empty(x.sizes(), x.scalar_type(), x.device());
  // Heads of one projection among others do not follow each other.
  const at::Tensor from = x.dim() == 2 ? x : x.contiguous();
  kernels::rms_norm(tensors::device_matrix_view(from), weight.const_data_ptr<float>(),
                    static_cast<float>(eps), tensors::device_matrix_view(y), tensors::stream_of(x));
  return y;
}

at::Tensor silu_mul(const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor y = tensors::empty(gate.sizes(), gate.scalar_type(), gate.device());
  kernels::silu_mul(tensors::device_matrix_view(gate), tensors::device_matrix_view(up),
                    tensors::device_matrix_view(y), tensors::stream_of(gate));
  return y;
}

void apply_rotary(at::Tensor& x, const RotaryStep& step) {
  kernels::rope(tensors::device_rows_view(x), x.size(2), step.cos.const_data_ptr<float>(),
                step.sin.const_data_ptr<float>(), tensors::stream_of(x));
}

}  // namespace grille::nn
