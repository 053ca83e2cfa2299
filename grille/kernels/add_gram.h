// The Gram matrix of a layer's inputs, in fp64.
#pragma once

#include "grille/base/matrix_view.h"

namespace grille::kernels {

// gram += x^T x. x: [tokens, n] float32; gram: [n, n] doubles, row after row. Entries (i, j) with j >= i are
// added to; of those below the diagonal some are, so that what they hold means nothing. Products of fp32
// numbers are exact in fp64; the order of sums depends on the instruction set and not on the number of
// threads. Cost: tokens * n^2 flops. Scratch, kept for the next call: min(tokens, 1024) * (n + 24) doubles.
// Throws Error{kInvalidArgument} for another dtype.
void add_gram(const ConstMatrixView& x, double* gram);

}  // namespace grille::kernels
