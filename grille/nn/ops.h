// The small operations between linear layers, on at::Tensor. x is float32, bfloat16 or float16, on the CPU or
// a CUDA device, and so is what belongs to it.
#pragma once

#include <ATen/core/Tensor.h>

#include "grille/nn/rotary.h"

namespace grille::nn {

// x / sqrt(mean(x^2) + eps) * weight over the last dimension, as transformers' LlamaRMSNorm: normalised in
// fp32, rounded to x's dtype, then multiplied by the weight. weight [last dimension], float32.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// silu(gate) * up, elementwise.
at::Tensor silu_mul(const at::Tensor& gate, const at::Tensor& up);

// Rotates x [tokens, heads, head_dim] in place.
void apply_rotary(at::Tensor& x, const RotaryStep& step);

}  // namespace grille::nn
