// The oracle of every matmul test: slow loops from the definition, sums in double.
#pragma once

#include "grille/kernels/matmul.h"

namespace grille::kernels {

// As matmul_dense and matmul_24, which see. The arguments must be valid.
void matmul_dense_reference(const MatmulTokens& tokens, const DenseWeight& weight,
                            const MatmulOutput& output);
void matmul_24_reference(const MatmulTokens& tokens, const TwoFourWeight& weight, const MatmulOutput& output);

}  // namespace grille::kernels
