// Pruning by score: the lowest-scoring weights become zero, the others stay as they are.
#pragma once

#include <ATen/core/Tensor.h>

#include "grille/prune/pattern.h"

namespace grille::prune {

// Where an unstructured pattern's share of zeros is taken from.
enum class Scope {
  kRow,     // exactly floor(cols * sparsity) of every row (Wanda)
  kMatrix,  // everything at or below the floor(numel * sparsity)-th lowest score (magnitude, RIA, SparseGPT,
            // ADMM, ALPS)
};

// Which weights stay: bool [rows, cols] from float32 scores [rows, cols]. Ties: the lower column is pruned
// first (with kMatrix, all weights at the threshold are pruned, as in the authors' codes).
// Throws Error{kInvalidArgument} when cols is not a multiple of the pattern's group or a score is NaN.
at::Tensor keep_mask(const at::Tensor& scores, const Pattern& pattern, Scope scope);

// |w|.
at::Tensor magnitude_scores(const at::Tensor& weight);

// |w_ij| sqrt(mean_squares_j): Wanda, arXiv 2306.11695, lib/prune.py of its authors' code.
at::Tensor wanda_scores(const at::Tensor& weight, const at::Tensor& mean_squares);

// (|w_ij| / sum_i |w_ij| + |w_ij| / sum_j |w_ij|) sqrt(mean_squares_j)^0.5: relative importance and
// activations, ICLR 2024 ("Plug-and-Play"), lib/prune.py of its authors' code. In fp64, rounded to float32
// once; 0 where w is 0.
at::Tensor ria_scores(const at::Tensor& weight, const at::Tensor& mean_squares);

}  // namespace grille::prune
