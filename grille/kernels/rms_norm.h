// Root mean square layer normalisation.
#pragma once

#include "grille/base/device.h"
#include "grille/base/matrix_view.h"

namespace grille::kernels {

// y = round(x / sqrt(mean(x^2) + eps)) * weight, by rows: the division in fp32, then rounded to x's dtype,
// then multiplied, as Hugging Face's LlamaRMSNorm (arXiv 1910.07467).
// x, y: [m, h] float32, bfloat16 or float16, same shape; y may be x. weight: [h].
// On a CUDA stream x, weight and y lie on its device, and the call only enqueues.
// Throws Error{kInvalidArgument} on mismatch.
void rms_norm(const ConstMatrixView& x, const float* weight, float eps, const MatrixView& y,
              const Stream& stream = {});

}  // namespace grille::kernels
