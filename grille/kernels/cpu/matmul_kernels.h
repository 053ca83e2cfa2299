// What each instruction set provides for matmul; matmul.cc validates, plans and splits the work.
#pragma once

#include <cstddef>
#include <cstdint>

#include "grille/base/matrix_view.h"
#include "grille/kernels/matmul_plan.h"

namespace grille::kernels {

// Weight rows that the inner loop handles together; work is split at multiples of it.
constexpr std::int64_t kRowGroup = 4;

// One weight on prepared tokens.
struct MatmulJob {
  MatmulPlan plan;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;

  const void* packed_x = nullptr;  // from pack_tokens, same compute class and token tile
  DType x_dtype = DType::kBFloat16;
  const float* x_scale = nullptr;

  const std::byte* values = nullptr;  // row r at values + r * value_row_bytes
  std::int64_t value_row_bytes = 0;
  const std::uint8_t* mask = nullptr;  // null: dense
  std::int64_t mask_row_bytes = 0;
  DType weight_dtype = DType::kBFloat16;
  const float* scale = nullptr;
  const float* bias = nullptr;

  MatrixView y;
  bool accumulate = false;
};

// Weight rows (columns of y) from a multiple of kRowGroup on, and tokens from a multiple of the tile on.
struct MatmulBlock {
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::int64_t token_begin = 0;
  std::int64_t token_end = 0;

  // Where weights stream by: rows that the thread will probably go on to, so that they are asked for ahead,
  // and whether it comes from the rows before, so that the first ones have been.
  std::int64_t rows_ahead_end = 0;
  bool follows = false;
};

struct MatmulKernels {
  // Bytes of all of x, prepared.
  std::int64_t (*packed_bytes)(const ConstMatrixView& x, ComputeClass compute);
  // Prepares token tiles [begin, end).
  void (*pack_tokens)(const ConstMatrixView& x, const MatmulPlan& plan, std::int64_t begin, std::int64_t end,
                      void* packed);
  // Computes a block of y.
  void (*run)(const MatmulJob& job, const MatmulBlock& block);
};

const MatmulKernels& matmul_kernels_scalar();
const MatmulKernels& matmul_kernels_avx2();
const MatmulKernels& matmul_kernels_avx512();
const MatmulKernels& matmul_kernels_amx();

}  // namespace grille::kernels
