#include "grille/kernels/matmul_reference.h"

#include <vector>

#include "grille/kernels/reference_values.h"

namespace grille::kernels {
namespace {

// y[:, j] from the dense row j of the weight.
void apply_row(const MatmulTokens& tokens, const std::vector<double>& weight_row, std::int64_t j,
               const float* scale, const float* bias, const MatmulOutput& output) {
  for (std::int64_t i = 0; i < tokens.x.rows; ++i) {
    double sum = 0.0;
    for (std::int64_t c = 0; c < tokens.x.cols; ++c) {
      sum += reference_value(tokens.x.dtype, tokens.x.row(i), c) * weight_row[static_cast<std::size_t>(c)];
    }
    if (tokens.x_scale != nullptr) sum *= tokens.x_scale[i];
    if (scale != nullptr) sum *= scale[j];
    if (bias != nullptr) sum += bias[j];
    if (output.accumulate) sum += reference_value(output.y.dtype, output.y.row(i), j);
    set_reference_value(output.y.dtype, output.y.row(i), j, static_cast<float>(sum));
  }
}

}  // namespace

void matmul_dense_reference(const MatmulTokens& tokens, const DenseWeight& weight,
                            const MatmulOutput& output) {
  std::vector<double> row(static_cast<std::size_t>(weight.weight.cols));
  for (std::int64_t j = 0; j < weight.weight.rows; ++j) {
    for (std::int64_t c = 0; c < weight.weight.cols; ++c) {
      row[static_cast<std::size_t>(c)] = reference_value(weight.weight.dtype, weight.weight.row(j), c);
    }
    apply_row(tokens, row, j, weight.scale, weight.bias, output);
  }
}

void matmul_24_reference(const MatmulTokens& tokens, const TwoFourWeight& weight,
                         const MatmulOutput& output) {
  const formats::TwoFourBitmaskView& w = weight.weight;
  std::vector<double> row(static_cast<std::size_t>(w.cols));
  for (std::int64_t j = 0; j < w.rows; ++j) {
    std::int64_t next = j * w.value_stride;
    for (std::int64_t c = 0; c < w.cols; ++c) {
      const bool kept = (w.mask[j * w.mask_stride + c / 8] >> (c % 8)) & 1;
      row[static_cast<std::size_t>(c)] = kept ? reference_value(w.dtype, w.values, next++) : 0.0;
    }
    apply_row(tokens, row, j, weight.scale, weight.bias, output);
  }
}

}  // namespace grille::kernels
