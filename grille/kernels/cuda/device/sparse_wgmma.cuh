// wgmma.sp: D[64 rows, N tokens] += A (2:4, from shared memory) x B (from shared memory), one warpgroup.
//
// In D, element i of a thread is row 16 * warp + lane / 4 + 8 * ((i / 2) & 1), token 8 * (i / 4) +
// 2 * (lane % 4) + (i & 1).
#pragma once

#include <cstdint>
#include <type_traits>

namespace grille::kernels {

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Descriptors of K-major operands: rows of 128 bytes (64 bytes) in groups of 8, swizzled, at an address that is
// a multiple of 1024 (512).
__device__ __forceinline__ std::uint64_t descriptor_128(std::uint32_t address) {
  return ((address & 0x3ffffu) >> 4) | (1ull << 16) | (std::uint64_t{1024 >> 4} << 32) | (1ull << 62);
}
__device__ __forceinline__ std::uint64_t descriptor_64(std::uint32_t address) {
  return ((address & 0x3ffffu) >> 4) | (1ull << 16) | (std::uint64_t{512 >> 4} << 32) | (2ull << 62);
}

// The accumulators are in use by instructions in flight: nothing may be moved across this.
template <typename T, int kCount>
__device__ __forceinline__ void fence_registers(T (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      asm volatile("" : "+f"(values[i])::"memory");
    } else {
      asm volatile("" : "+r"(values[i])::"memory");
    }
  }
}

// Element types of both operands.
enum class Operand { kFloat8E4M3, kInt8, kBFloat16, kFloat16 };

template <Operand kOperand>
struct Accumulator {
  using Type = float;
};
template <>
struct Accumulator<Operand::kInt8> {
  using Type = int;
};

// multiply<kSelector>(d, a, b, metadata, accumulate): d = accumulate ? d + A B : A B. The selector says which
// lanes of a quad hold the metadata of a 16-bit type: 0 the first two, 1 the last two.
template <Operand kOperand, int kTokens>
struct SparseWgmma;

// Inline PTX wants each operand spelled out, so the lists are built by macros.
#define GRILLE_REGISTERS_32                                                                              \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27," \
  "%28,%29,%30,%31"
#define GRILLE_REGISTERS_64                                                                               \
  GRILLE_REGISTERS_32                                                                                     \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56," \
  "%57,%58,%59,%60,%61,%62,%63"
#define GRILLE_REGISTERS_96                                                                               \
  GRILLE_REGISTERS_64                                                                                     \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88," \
  "%89,%90,%91,%92,%93,%94,%95"
#define GRILLE_REGISTERS_128                                                                           \
  GRILLE_REGISTERS_96                                                                                  \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,"  \
  "%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define GRILLE_OPERANDS_8(C, i)                                                                     \
  C(d[i]), C(d[i + 1]), C(d[i + 2]), C(d[i + 3]), C(d[i + 4]), C(d[i + 5]), C(d[i + 6]), C(d[i + 7])
#define GRILLE_OPERANDS_32(C, i) \
  GRILLE_OPERANDS_8(C, i), GRILLE_OPERANDS_8(C, i + 8), GRILLE_OPERANDS_8(C, i + 16), GRILLE_OPERANDS_8(C, i + 24)
#define GRILLE_OPERANDS_64(C, i) GRILLE_OPERANDS_32(C, i), GRILLE_OPERANDS_32(C, i + 32)
#define GRILLE_OPERANDS_96(C, i) GRILLE_OPERANDS_64(C, i), GRILLE_OPERANDS_32(C, i + 64)
#define GRILLE_OPERANDS_128(C, i) GRILLE_OPERANDS_64(C, i), GRILLE_OPERANDS_64(C, i + 64)

// D is the number of accumulators, tokens / 2; A, B, E, S and P the operand numbers behind them.
#define GRILLE_SPARSE_WGMMA(OPERAND, TOKENS, SHAPE, TAIL, C, D, A, B, E, S, P)                              \
  template <>                                                                                              \
  struct SparseWgmma<Operand::OPERAND, TOKENS> {                                                           \
    template <int kSelector>                                                                               \
    static __device__ __forceinline__ void multiply(Accumulator<Operand::OPERAND>::Type (&d)[D],           \
                                                    std::uint64_t a, std::uint64_t b, std::uint32_t e,     \
                                                    int accumulate) {                                      \
      asm volatile("{.reg .pred p;\nsetp.ne.b32 p, %" #P                                                   \
                   ", 0;\n"                                                                                \
                   "wgmma.mma_async.sp.sync.aligned.m64n" #TOKENS SHAPE " {" GRILLE_REGISTERS_##D "}, %" #A \
                   ", %" #B ", %" #E ", %" #S ", p" TAIL ";}\n"                                            \
                   : GRILLE_OPERANDS_##D(C, 0)                                                             \
                   : "l"(a), "l"(b), "r"(e), "n"(kSelector), "r"(accumulate));                             \
    }                                                                                                      \
  };
#define GRILLE_SPARSE_WGMMA_TILES(OPERAND, SHAPE, TAIL, C)                              \
  GRILLE_SPARSE_WGMMA(OPERAND, 64, SHAPE, TAIL, C, 32, 32, 33, 34, 35, 36)              \
  GRILLE_SPARSE_WGMMA(OPERAND, 128, SHAPE, TAIL, C, 64, 64, 65, 66, 67, 68)             \
  GRILLE_SPARSE_WGMMA(OPERAND, 192, SHAPE, TAIL, C, 96, 96, 97, 98, 99, 100)            \
  GRILLE_SPARSE_WGMMA(OPERAND, 256, SHAPE, TAIL, C, 128, 128, 129, 130, 131, 132)

GRILLE_SPARSE_WGMMA_TILES(kFloat8E4M3, "k64.f32.e4m3.e4m3", ", 1, 1", "+f")
GRILLE_SPARSE_WGMMA_TILES(kInt8, "k64.s32.s8.s8", "", "+r")
GRILLE_SPARSE_WGMMA_TILES(kBFloat16, "k32.f32.bf16.bf16", ", 1, 1, 0, 0", "+f")
GRILLE_SPARSE_WGMMA_TILES(kFloat16, "k32.f32.f16.f16", ", 1, 1, 0, 0", "+f")

}  // namespace grille::kernels
