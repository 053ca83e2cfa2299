// wgmma.mma_async.sp: D[64 x N] (+)= A[64 x k] (2:4, shared memory) * B[N x k]^T (shared memory), both
// K-major. SparseWgmma<kType, N>::mma<selector>(d, a, b, metadata, accumulate); k is 64 bytes of B. D: thread
// t of the warpgroup holds in d[i] row t / 32 * 16 + t % 32 / 4 + 8 * (i / 2 % 2), column 8 * (i / 4) + t % 4
// * 2 + i % 2.
#pragma once

#include <cstdint>

#include "grille/kernels/cuda/stream_24_layout.h"

namespace grille::kernels::sm90 {

// Before the first wgmma, and whenever registers that it reads were written.
__device__ __forceinline__ void fence_wgmma() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_wgmma() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most kGroups committed groups are unfinished.
template <int kGroups>
__device__ __forceinline__ void wait_wgmma() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}

// A K-major operand whose rows are 64 or 128 bytes, swizzled likewise; 1024-byte aligned. The next 16 bytes
// of every row: + 1.
template <int kRowBytes>
__device__ __forceinline__ std::uint64_t operand_descriptor(std::uint32_t address) {
  constexpr std::uint64_t mode = kRowBytes == 128 ? 1 : 2;
  constexpr std::uint64_t eight_rows = 8 * kRowBytes;
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) | (1ull << 16) | ((eight_rows >> 4) << 32) |
         (mode << 62);
}

// Keeps accumulators in their registers around asynchronous instructions.
template <int kCount>
__device__ __forceinline__ void fence_registers(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void fence_registers(int (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

template <Sm90Type kType, int kColumns>
struct SparseWgmma;

// clang-format off
#define GRILLE_REGISTERS_8 "%0, %1, %2, %3"
#define GRILLE_REGISTERS_16 \
  GRILLE_REGISTERS_8 \
  ", %4, %5, %6, %7"
#define GRILLE_REGISTERS_32 \
  GRILLE_REGISTERS_16 \
  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define GRILLE_REGISTERS_64 \
  GRILLE_REGISTERS_32 \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GRILLE_REGISTERS_128 \
  GRILLE_REGISTERS_64 \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define GRILLE_REGISTERS_192 \
  GRILLE_REGISTERS_128 \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define GRILLE_REGISTERS_256 \
  GRILLE_REGISTERS_192 \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define GRILLE_FOUR(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define GRILLE_OPERANDS_8(c) GRILLE_FOUR(c, 0)
#define GRILLE_OPERANDS_16(c) GRILLE_OPERANDS_8(c), GRILLE_FOUR(c, 4)
#define GRILLE_OPERANDS_32(c) GRILLE_OPERANDS_16(c), GRILLE_FOUR(c, 8), GRILLE_FOUR(c, 12)
#define GRILLE_OPERANDS_64(c) GRILLE_OPERANDS_32(c), GRILLE_FOUR(c, 16), GRILLE_FOUR(c, 20), GRILLE_FOUR(c, 24), GRILLE_FOUR(c, 28)
#define GRILLE_OPERANDS_128(c) GRILLE_OPERANDS_64(c), GRILLE_FOUR(c, 32), GRILLE_FOUR(c, 36), GRILLE_FOUR(c, 40), GRILLE_FOUR(c, 44), GRILLE_FOUR(c, 48), GRILLE_FOUR(c, 52), GRILLE_FOUR(c, 56), GRILLE_FOUR(c, 60)
#define GRILLE_OPERANDS_192(c) GRILLE_OPERANDS_128(c), GRILLE_FOUR(c, 64), GRILLE_FOUR(c, 68), GRILLE_FOUR(c, 72), GRILLE_FOUR(c, 76), GRILLE_FOUR(c, 80), GRILLE_FOUR(c, 84), GRILLE_FOUR(c, 88), GRILLE_FOUR(c, 92)
#define GRILLE_OPERANDS_256(c) GRILLE_OPERANDS_192(c), GRILLE_FOUR(c, 96), GRILLE_FOUR(c, 100), GRILLE_FOUR(c, 104), GRILLE_FOUR(c, 108), GRILLE_FOUR(c, 112), GRILLE_FOUR(c, 116), GRILLE_FOUR(c, 120), GRILLE_FOUR(c, 124)

// a ... p: the numbers of the operands behind the accumulators.
#define GRILLE_SPARSE_WGMMA(type, accumulator, constraint, columns, shape_and_types, flags, a, b, e, s, p)            \
  template <>                                                                                                        \
  struct SparseWgmma<type, columns> {                                                                                \
    template <int kSelector>                                                                                         \
    static __device__ __forceinline__ void mma(accumulator (&d)[columns / 2], std::uint64_t a_operand,               \
                                               std::uint64_t b_operand, std::uint32_t metadata, int accumulate) {    \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p ", 0;\n"                                                  \
                   "wgmma.mma_async.sp.sync.aligned.m64n" #columns shape_and_types                                   \
                   " {" GRILLE_REGISTERS_##columns "}, %" #a ", %" #b ", %" #e ", %" #s ", p" flags ";\n}"           \
                   : GRILLE_OPERANDS_##columns(constraint)                                                           \
                   : "l"(a_operand), "l"(b_operand), "r"(metadata), "n"(kSelector), "r"(accumulate));                \
    }                                                                                                                \
  }

#define GRILLE_SPARSE_WGMMA_OF(type, accumulator, constraint, shape_and_types, flags)                                \
  GRILLE_SPARSE_WGMMA(type, accumulator, constraint, 8, shape_and_types, flags, 4, 5, 6, 7, 8);                      \
  GRILLE_SPARSE_WGMMA(type, accumulator, constraint, 16, shape_and_types, flags, 8, 9, 10, 11, 12);                  \
  GRILLE_SPARSE_WGMMA(type, accumulator, constraint, 32, shape_and_types, flags, 16, 17, 18, 19, 20);                \
  GRILLE_SPARSE_WGMMA(type, accumulator, constraint, 64, shape_and_types, flags, 32, 33, 34, 35, 36);                \
  GRILLE_SPARSE_WGMMA(type, accumulator, constraint, 128, shape_and_types, flags, 64, 65, 66, 67, 68);                \
  GRILLE_SPARSE_WGMMA(type, accumulator, constraint, 192, shape_and_types, flags, 96, 97, 98, 99, 100);               \
  GRILLE_SPARSE_WGMMA(type, accumulator, constraint, 256, shape_and_types, flags, 128, 129, 130, 131, 132)

GRILLE_SPARSE_WGMMA_OF(Sm90Type::kBFloat16, float, "+f", "k32.f32.bf16.bf16", ", 1, 1, 0, 0");
GRILLE_SPARSE_WGMMA_OF(Sm90Type::kFloat16, float, "+f", "k32.f32.f16.f16", ", 1, 1, 0, 0");
GRILLE_SPARSE_WGMMA_OF(Sm90Type::kFloat8E4M3, float, "+f", "k64.f32.e4m3.e4m3", ", 1, 1");
GRILLE_SPARSE_WGMMA_OF(Sm90Type::kInt8, int, "+r", "k64.s32.s8.s8", "");
// clang-format on

#undef GRILLE_SPARSE_WGMMA_OF
#undef GRILLE_SPARSE_WGMMA
#undef GRILLE_OPERANDS_8
#undef GRILLE_OPERANDS_16
#undef GRILLE_OPERANDS_32
#undef GRILLE_OPERANDS_64
#undef GRILLE_OPERANDS_128
#undef GRILLE_OPERANDS_192
#undef GRILLE_OPERANDS_256
#undef GRILLE_FOUR
#undef GRILLE_REGISTERS_8
#undef GRILLE_REGISTERS_16
#undef GRILLE_REGISTERS_32
#undef GRILLE_REGISTERS_64
#undef GRILLE_REGISTERS_128
#undef GRILLE_REGISTERS_192
#undef GRILLE_REGISTERS_256

}  // namespace grille::kernels::sm90
