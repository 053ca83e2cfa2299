// Ways that this CPU would not take by itself: the tile algorithm, on emulated tile registers, and bfloat16
// pairs multiplied as pairs or split, whichever is faster here.
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/cpu_features.h"
#include "grille/kernels/cpu/isa_region.h"
#include "grille/kernels/cpu/matmul_kernels.h"
#include "grille/kernels/matmul_cases.h"

#if defined(__x86_64__)

GRILLE_BEGIN_AVX512

// clang-format off
#include "grille/kernels/cpu/simd_avx512-inl.h"
#include "grille/kernels/cpu/partial-inl.h"
#include "grille/kernels/cpu/decode_avx512-inl.h"
#include "grille/kernels/cpu/matmul-inl.h"
#include "grille/kernels/cpu/matmul_tiles-inl.h"
// clang-format on

namespace grille::kernels {
namespace {

// What Intel's manual says of the instructions.
struct EmulatedTiles {
  struct Registers {
    std::uint8_t bytes[8][16][64];
    int sessions = 0;
  };
  static Registers& registers() {
    static thread_local Registers all;
    return all;
  }
  // Registers lose what they held.
  struct Session {
    Session() {
      ++registers().sessions;
      std::memset(registers().bytes, 0xff, sizeof(registers().bytes));
    }
    ~Session() { --registers().sessions; }
  };
  static std::uint8_t (&tile(int i))[16][64] {
    check(registers().sessions == 1, ErrorCode::kInternal, "a tile is used outside of a session");
    return registers().bytes[i];
  }

  template <int kTile>
  static void zero() {
    std::memset(tile(kTile), 0, sizeof(tile(kTile)));
  }
  template <int kTile>
  static void load(const void* p, std::int64_t stride) {
    for (int row = 0; row < 16; ++row) {
      std::memcpy(tile(kTile)[row], static_cast<const std::uint8_t*>(p) + row * stride, 64);
    }
  }
  template <int kTile>
  static void store(void* p, std::int64_t stride) {
    for (int row = 0; row < 16; ++row) {
      std::memcpy(static_cast<std::uint8_t*>(p) + row * stride, tile(kTile)[row], 64);
    }
  }
  template <int kSums, int kA, int kB>
  static void multiply() {
    float sums[16][16];
    std::uint16_t a[16][32], b[16][32];
    std::memcpy(sums, tile(kSums), sizeof(sums));
    std::memcpy(a, tile(kA), sizeof(a));
    std::memcpy(b, tile(kB), sizeof(b));
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) {
        for (int column = 0; column < 32; ++column) {
          sums[i][j] +=
              bfloat16_to_float(a[i][column]) * bfloat16_to_float(b[column / 2][2 * j + column % 2]);
        }
      }
    }
    std::memcpy(tile(kSums), sums, sizeof(sums));
  }
};

const MatmulKernels& emulated_kernels() {
  static constexpr MatmulKernels kKernels = tile_kernels<EmulatedTiles>();
  return kKernels;
}

}  // namespace
}  // namespace grille::kernels

GRILLE_END_ISA

namespace grille::kernels {
namespace {

using testing::MatmulCase;
using testing::MatmulProblemData;

MatmulJob job_of(const MatmulCase& c, const MatmulProblemData& problem, const MatmulOutput& output) {
  MatmulJob job;
  job.m = c.m;
  job.n = c.n;
  job.k = c.k;
  job.x_dtype = c.x;
  job.x_scale = problem.tokens().x_scale;
  job.weight_dtype = c.weight;
  const auto size = static_cast<std::int64_t>(dtype_size(c.weight));
  const DenseWeight dense = problem.dense();
  job.values = static_cast<const std::byte*>(dense.weight.data);
  job.value_row_bytes = dense.weight.row_stride * size;
  job.scale = dense.scale;
  job.bias = dense.bias;
  if (c.two_four) {
    const TwoFourWeight sparse = problem.sparse();
    job.value_row_bytes = sparse.weight.value_stride * size;
    job.mask = sparse.weight.mask;
    job.mask_row_bytes = sparse.weight.mask_stride;
  }
  job.y = output.y;
  job.accumulate = output.accumulate;
  return job;
}

// Blocks of rows and tokens as threads would share them, both multiples of 16 and of the plan's tile.
void run_blocks(const MatmulKernels& kernels, MatmulJob job, const ConstMatrixView& x, std::int64_t rows,
                std::int64_t tokens) {
  const std::int64_t tiles = (job.m + job.plan.token_tile - 1) / job.plan.token_tile;
  std::vector<std::byte> packed(static_cast<std::size_t>(kernels.packed_bytes(x, job.plan.compute)) + 64);
  kernels.pack_tokens(x, job.plan, tiles / 2, tiles, packed.data());
  kernels.pack_tokens(x, job.plan, 0, tiles / 2, packed.data());
  job.packed_x = packed.data();
  if (!job.plan.expand_panel) tokens = job.m;
  tokens = (tokens + job.plan.token_tile - 1) / job.plan.token_tile * job.plan.token_tile;
  for (std::int64_t row = 0; row < job.n; row += rows) {
    for (std::int64_t token = 0; token < job.m; token += tokens) {
      kernels.run(job, {row, std::min(row + rows, job.n), token, std::min(token + tokens, job.m)});
    }
  }
}

struct Variant {
  const MatmulKernels& kernels;
  Isa isa;
  bool slow_pairs;
};
Variant tiles() { return {emulated_kernels(), Isa::kAmx, false}; }
Variant pairs() { return {matmul_kernels_avx512(), Isa::kAvx512, false}; }
Variant split() { return {matmul_kernels_avx512(), Isa::kAvx512, true}; }

void check_variant(const Variant& variant, MatmulCase c, std::uint32_t seed, std::int64_t rows,
                   std::int64_t tokens) {
  const MatmulProblemData problem(c, seed);
  auto actual = problem.initial();
  auto expected = problem.initial();
  MatmulJob job = job_of(c, problem, problem.output(actual));
  job.plan = plan_matmul({c.m, c.n, c.k, c.x, c.weight, c.two_four}, variant.isa, variant.slow_pairs);
  ASSERT_EQ(uses_tiles(job.plan.compute), variant.isa == Isa::kAmx) << c.name();
  run_blocks(variant.kernels, job, problem.tokens().x, rows, tokens);
  run_reference(problem, problem.output(expected));
  problem.compare(actual, expected);
}

void check_all_types(const Variant& variant, std::int64_t fewest_tokens, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (DType x : {DType::kBFloat16, DType::kFloat8E4M3}) {
    for (DType weight : {DType::kBFloat16, DType::kFloat8E4M3}) {
      for (DType y : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        for (bool two_four : {false, true}) {
          MatmulCase c = testing::random_matmul_case(random, two_four);
          c.m += fewest_tokens;
          c.x = x;
          c.weight = weight;
          c.y = y;
          check_variant(variant, c, random(), 16 * (1 + random() % 9), 16 * (1 + random() % 5));
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

bool lacks_avx512() { return detected_isa() < Isa::kAvx512; }

TEST(MatmulAvx512, PairsMatchReferenceOnRaggedShapes) {
  if (lacks_avx512()) GTEST_SKIP() << "this CPU lacks AVX-512";
  for (std::uint32_t seed = 1; seed <= 3; ++seed) check_all_types(pairs(), 1, seed);
}

TEST(MatmulAvx512, SplitPairsMatchReferenceOnRaggedShapes) {
  if (lacks_avx512()) GTEST_SKIP() << "this CPU lacks AVX-512";
  for (std::uint32_t seed = 1; seed <= 3; ++seed) check_all_types(split(), 2, seed);
  for (std::int64_t k : {4096, 4100, 9236}) {
    check_variant(split(), {.m = 13, .n = 9, .k = k, .two_four = true}, 5, 16, 12);
    check_variant(split(), {.m = 3, .n = 9, .k = k, .weight = DType::kFloat8E4M3}, 6, 16, 12);
  }
}

TEST(MatmulTiles, MatchReferenceForAllTypesOnRaggedShapes) {
  if (lacks_avx512()) GTEST_SKIP() << "this CPU lacks AVX-512";
  check_all_types(tiles(), 8, 3);
}

// Columns are cut at 512 and may end in a partial step; rows at 256, tokens at 512.
TEST(MatmulTiles, LongAndTallProblemsMatchReference) {
  if (lacks_avx512()) GTEST_SKIP() << "this CPU lacks AVX-512";
  for (std::int64_t k : {508, 512, 516, 1092}) {
    for (bool two_four : {false, true}) {
      check_variant(tiles(), {.m = 33, .n = 19, .k = k, .weight = DType::kFloat8E4M3, .two_four = two_four},
                    5, 1024, 1024);
      check_variant(tiles(), {.m = 16, .n = 33, .k = k, .two_four = two_four, .bias = true}, 6, 1024, 1024);
    }
  }
  check_variant(tiles(), {.m = 9, .n = 300, .k = 64, .two_four = true}, 7, 1024, 1024);
  check_variant(tiles(), {.m = 530, .n = 20, .k = 64, .two_four = true, .accumulate = true}, 8, 1024, 1024);
}

}  // namespace
}  // namespace grille::kernels

#endif
