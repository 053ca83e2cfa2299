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
  return compute == ComputeClass::kFloat32 ? packed_size<FloatCompute>(x) : packed_size<PairCompute>(x);
}

void pack(const ConstMatrixView& x, const MatmulPlan& plan, std::int64_t begin, std::int64_t end,
          void* packed) {
  if (plan.compute == ComputeClass::kFloat32) return pack_float(x, plan, begin, end, packed);
  const bool float8 = x.dtype == DType::kFloat8E4M3;
  if (plan.compute == ComputeClass::kFloat8Pairs) {
    float8 ? pack_tiles<Float8PairCompute, Float8>(x, plan, begin, end, packed)
           : pack_tiles<Float8PairCompute, BFloat16>(x, plan, begin, end, packed);
  } else {
    float8 ? pack_tiles<Float8TokensPairCompute, Float8>(x, plan, begin, end, packed)
           : pack_tiles<PairCompute, BFloat16>(x, plan, begin, end, packed);
  }
}

void run(const MatmulJob& job, const MatmulBlock& block) {
  switch (job.plan.compute) {
    case ComputeClass::kFloat32: return run_weight<FloatCompute>(job, block);
    case ComputeClass::kBFloat16Pairs: return run_weight<PairCompute>(job, block);
    case ComputeClass::kFloat8Pairs: return run_weight<Float8PairCompute>(job, block);
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
