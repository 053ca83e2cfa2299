#include "grille/kernels/cpu/isa_region.h"
#include "grille/kernels/cpu/matmul_kernels.h"

#if defined(__x86_64__)

GRILLE_BEGIN_AVX512

// The algorithms are written on the primitives.
// clang-format off
#include "grille/kernels/cpu/simd_avx512-inl.h"
#include "grille/kernels/cpu/partial-inl.h"
#include "grille/kernels/cpu/decode_avx512-inl.h"
#include "grille/kernels/cpu/matmul-inl.h"
#include "grille/kernels/cpu/gather_avx512-inl.h"
// clang-format on

namespace grille::kernels {
namespace {

std::int64_t packed_bytes(const ConstMatrixView& x, ComputeClass compute) {
  switch (compute) {
    case ComputeClass::kFloat32: return packed_size<FloatCompute>(x);
    case ComputeClass::kBFloat16Split:
    case ComputeClass::kFloat8Split: return packed_size<SplitCompute<PairCompute>>(x);
    default: return packed_size<PairCompute>(x);
  }
}

void pack(const ConstMatrixView& x, const MatmulPlan& plan, std::int64_t begin, std::int64_t end,
          void* packed) {
  if (plan.compute == ComputeClass::kFloat32) return pack_float(x, plan, begin, end, packed);
  const bool float8 = x.dtype == DType::kFloat8E4M3;
  // Of the class itself, and for float8 tokens and bfloat16 weights.
  const auto pack_as = [&]<typename C, typename Float8Tokens>(C, Float8Tokens) {
    float8 ? pack_tiles<Float8Tokens, Float8>(x, plan, begin, end, packed)
           : pack_tiles<C, BFloat16>(x, plan, begin, end, packed);
  };
  switch (plan.compute) {
    case ComputeClass::kFloat8Pairs: return pack_as(Float8PairCompute(), Float8PairCompute());
    case ComputeClass::kFloat8Split:
      return pack_as(SplitCompute<Float8PairCompute>(), SplitCompute<Float8PairCompute>());
    case ComputeClass::kBFloat16Split:
      return pack_as(SplitCompute<PairCompute>(), SplitCompute<Float8TokensPairCompute>());
    default: return pack_as(PairCompute(), Float8TokensPairCompute());
  }
}

void run(const MatmulJob& job, const MatmulBlock& block) {
  switch (job.plan.compute) {
    case ComputeClass::kFloat32: return run_weight<FloatCompute>(job, block);
    case ComputeClass::kBFloat16Pairs: return run_weight<PairCompute>(job, block);
    case ComputeClass::kFloat8Pairs: return run_weight<Float8PairCompute>(job, block);
    case ComputeClass::kBFloat16Split: return run_weight<SplitCompute<PairCompute>>(job, block);
    case ComputeClass::kFloat8Split: return run_weight<SplitCompute<Float8PairCompute>>(job, block);
    case ComputeClass::kBFloat16Tiles:
    case ComputeClass::kFloat8Tiles: break;  // matmul_amx.cc's
  }
}

}  // namespace

const MatmulKernels& matmul_kernels_avx512() {
  static constexpr MatmulKernels kKernels = {packed_bytes, pack, run};
  return kKernels;
}

}  // namespace grille::kernels

GRILLE_END_ISA

#endif
