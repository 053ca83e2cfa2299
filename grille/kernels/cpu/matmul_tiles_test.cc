// The tile algorithm on emulated tile registers, so that it is tested where the CPU has none.
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
  job.plan = plan_matmul({c.m, c.n, c.k, c.x, c.weight, c.two_four}, Isa::kAmx);
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

// Rows from a multiple of 16 on, tokens too, as threads would share them.
void run_blocks(MatmulJob job, const ConstMatrixView& x, std::int64_t rows, std::int64_t tokens) {
  const MatmulKernels& kernels = emulated_kernels();
  const std::int64_t tiles = (job.m + 15) / 16;
  std::vector<std::byte> packed(static_cast<std::size_t>(kernels.packed_bytes(x, job.plan.compute)) + 64);
  kernels.pack_tokens(x, job.plan, tiles / 2, tiles, packed.data());
  kernels.pack_tokens(x, job.plan, 0, tiles / 2, packed.data());
  job.packed_x = packed.data();
  for (std::int64_t row = 0; row < job.n; row += rows) {
    for (std::int64_t token = 0; token < job.m; token += tokens) {
      kernels.run(job, {row, std::min(row + rows, job.n), token, std::min(token + tokens, job.m)});
    }
  }
}

void check_tiles(MatmulCase c, std::uint32_t seed, std::int64_t rows, std::int64_t tokens) {
  const MatmulProblemData problem(c, seed);
  auto actual = problem.initial();
  auto expected = problem.initial();
  const MatmulJob job = job_of(c, problem, problem.output(actual));
  ASSERT_TRUE(uses_tiles(job.plan.compute)) << c.name();
  run_blocks(job, problem.tokens().x, rows, tokens);
  run_reference(problem, problem.output(expected));
  problem.compare(actual, expected);
}

bool lacks_avx512() { return detected_isa() < Isa::kAvx512; }

TEST(MatmulTiles, MatchReferenceForAllTypesOnRaggedShapes) {
  if (lacks_avx512()) GTEST_SKIP() << "this CPU lacks AVX-512";
  std::mt19937 random(3);
  for (DType x : {DType::kBFloat16, DType::kFloat8E4M3}) {
    for (DType weight : {DType::kBFloat16, DType::kFloat8E4M3}) {
      for (DType y : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        for (bool two_four : {false, true}) {
          MatmulCase c = testing::random_matmul_case(random, two_four);
          c.m += 8;
          c.x = x;
          c.weight = weight;
          c.y = y;
          check_tiles(c, random(), 16 * (1 + random() % 9), 16 * (1 + random() % 5));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Columns are cut at 512 and may end in a partial step; rows at 256, tokens at 512.
TEST(MatmulTiles, LongAndTallProblemsMatchReference) {
  if (lacks_avx512()) GTEST_SKIP() << "this CPU lacks AVX-512";
  for (std::int64_t k : {508, 512, 516, 1092}) {
    for (bool two_four : {false, true}) {
      check_tiles({.m = 33, .n = 19, .k = k, .weight = DType::kFloat8E4M3, .two_four = two_four}, 5, 1024,
                  1024);
      check_tiles({.m = 16, .n = 33, .k = k, .two_four = two_four, .bias = true}, 6, 1024, 1024);
    }
  }
  check_tiles({.m = 9, .n = 300, .k = 64, .two_four = true}, 7, 1024, 1024);
  check_tiles({.m = 530, .n = 20, .k = 64, .two_four = true, .accumulate = true}, 8, 1024, 1024);
}

}  // namespace
}  // namespace grille::kernels

#endif
