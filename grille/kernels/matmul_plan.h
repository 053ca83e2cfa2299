// Which CPU kernel a matmul runs in: a pure function of the problem.
#pragma once

#include <cstdint>
#include <string>

#include "grille/base/cpu_features.h"
#include "grille/base/dtype.h"

namespace grille::kernels {

// What is multiplied in the inner loop.
enum class ComputeClass {
  kBFloat16Pairs,  // two bfloat16 products a lane and instruction (vdpbf16ps)
  kFloat8Pairs,    // the same, for float8 weights: columns in the order in which these are widened
  kFloat32,
  kBFloat16Split,  // both pair classes as floats of the even and the odd columns (vfmadd231ps)
  kFloat8Split,
  kBFloat16Tiles,  // both pair classes on tiles of 16 rows and 16 tokens (tdpbf16ps)
  kFloat8Tiles,
};
constexpr int kComputeClasses = 7;

constexpr bool uses_tiles(ComputeClass compute) {
  return compute == ComputeClass::kBFloat16Tiles || compute == ComputeClass::kFloat8Tiles;
}

struct MatmulProblem {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType x = DType::kBFloat16;
  DType weight = DType::kBFloat16;
  bool two_four = false;
};

struct MatmulPlan {
  Isa isa = Isa::kScalar;
  ComputeClass compute = ComputeClass::kFloat32;
  // Tokens that share one pass over a weight row, 1 ... max_token_tile(isa); with tiles always 16.
  int token_tile = 1;
  // false: weight rows are decoded as they are multiplied, once (m <= token_tile).
  // true: `panel_rows` rows are decoded into scratch, some columns at a time, which every token tile then
  // reads.
  bool expand_panel = false;
  std::int64_t panel_rows = 0;  // a multiple of row_group
  std::int64_t row_group = 4;   // weight rows that the inner loop handles together
};

// Without tiles. Bounded by registers: 4 weight rows x token_tile accumulators.
int max_token_tile(Isa isa);

// `slow_pairs`: slow_bfloat16_pairs() of the CPU.
MatmulPlan plan_matmul(const MatmulProblem& problem, Isa isa, bool slow_pairs = false);

// How the work of weights on the same tokens is cut: a grid of blocks, one a thread.
struct MatmulGrid {
  std::int64_t row_parts = 1;
  std::int64_t token_parts = 1;
  std::int64_t parts() const { return row_parts * token_parts; }
};

// `rows`: of all weights together. Blocks are whole row groups and token tiles; of all grids of at most
// `threads` blocks, the one whose largest block is done first. All tokens of a streaming plan are one part.
MatmulGrid plan_grid(const MatmulPlan& plan, std::int64_t m, std::int64_t rows, std::int64_t threads);

// "avx512 bfloat16-pairs panel of 64 rows x 6 tokens"
std::string to_string(const MatmulPlan& plan);

}  // namespace grille::kernels
