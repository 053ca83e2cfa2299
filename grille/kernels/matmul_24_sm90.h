// y = x W^T on a Hopper GPU (compute capability 9.0), with a 2:4 weight packed as TwoFourSm90.
#pragma once

#include <cstddef>
#include <cstdint>

#include "grille/base/device.h"
#include "grille/base/matrix_view.h"
#include "grille/formats/two_four_sm90.h"
#include "grille/kernels/matmul_24_sm90_plan.h"

namespace grille::kernels {

// With acc the sum of products, all in fp32 (int8: acc is exact, in int32):
//   y = acc * x_scale[token] * weight_scale[feature] + bias[feature] + residual[token, feature]
// With swiglu, rows 2 i and 2 i + 1 of the weight are gate and up of feature i, n is even, and
//   y[token, i] = silu(gate) * up, where gate and up are what y would be without it; no residual
struct Matmul24Sm90Args {
  ConstMatrixView x;                    // [m, k] bfloat16, float16, float8_e4m3fn or int8
  const float* x_scale = nullptr;       // [m] for float8_e4m3fn and int8, else null
  formats::TwoFourSm90View weight;      // [n, k], dtype of x
  const float* weight_scale = nullptr;  // [n] for float8_e4m3fn and int8, else null
  const float* bias = nullptr;          // [n] or null
  ConstMatrixView residual;             // [m, n], dtype of y; data null: none. May be y itself
  MatrixView y;                         // [m, n] bfloat16, float16 or float32; must not alias anything else
  bool swiglu = false;                  // y is [m, n / 2] bfloat16 or float16
  // float8, the large kernel: sums stay in the tensor cores, which keep about 14 bits of them (what cuBLASLt
  // calls fast accumulation). Otherwise they are added up in fp32 every 512 columns of k.
  bool fast_accumulation = false;
  // Measured plans to choose from before the rule; null: the built-in ones. The same as the workspace was
  // planned with.
  const Matmul24PlanTable* plans = nullptr;
  // matmul_24_sm90_workspace() bytes, 256-byte aligned. Its first kMatmul24CounterBytes must be zero before
  // the first call; every call leaves them zero. One workspace serves all calls of one stream.
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  // Start before the kernel in front of this one on the stream has finished (programmatic dependent launch):
  // only the weight is read until it has. So the weight must not be written by that kernel.
  bool overlap_previous = false;
  Stream stream;
};

constexpr std::size_t kMatmul24CounterBytes = 16384;

// Whether x and all its rows begin at multiples of 16 bytes (Matmul24Sm90Problem::x_aligned).
bool is_matmul_24_sm90_aligned(const ConstMatrixView& x);

// Of the stream's device. Throws Error{kUnsupported} unless its compute capability is 9.0.
Sm90Caps sm90_caps(const Stream& stream);

// Bytes of workspace that a plan needs, at most. Pure.
std::size_t matmul_24_sm90_workspace(const Matmul24Sm90Problem& problem, const Matmul24Sm90Plan& plan);

// Any 1 <= m, n >= 1, k >= 4 with k % 4 == 0. The result depends on the plan (m, n, k, dtype, device), and
// for equal plans it is the same bit for bit from run to run.
// float8 products are summed by the tensor cores with fewer bits than fp32 (about 14);
// Matmul24Sm90Plan::promote says whether such sums are added up in fp32 every few k-tiles. The streaming
// kernel promotes for m <= 32, and above adds up in fp32 what the blocks of a cluster have summed, an
// equal share of k each; the large one promotes every 512 columns unless told not to. Cost: reads the weight
// once for m <= 128. Only enqueues: no host synchronisation, no allocation, capturable. Throws
// Error{kInvalidArgument} for shapes, dtypes, strides, alignment, aliasing or a short workspace,
// Error{kUnsupported} for a device that is not of compute capability 9.0, a CPU stream or a build without
// sm_90a code, Error{kDevice} if a launch fails.
void matmul_24_sm90(const Matmul24Sm90Args& args);

// The same with a plan of one's own (tests, tuning). The workspace must suffice for it.
void matmul_24_sm90(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan);

}  // namespace grille::kernels
