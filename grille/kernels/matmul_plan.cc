#include "grille/kernels/matmul_plan.h"

#include <algorithm>

#include <fmt/format.h>

namespace grille::kernels {
namespace {

constexpr std::int64_t kPanelBytes = 512 * 1024;  // at most half of an L2 cache
constexpr std::int64_t kMaxPanelRows = 64;
constexpr std::int64_t kRowGroup = 4;         // weight rows that the inner loop handles together
constexpr std::int64_t kBlockColumns = 4096;  // of a panel; see cpu/matmul-inl.h

bool fits_bfloat16(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat8E4M3; }

}  // namespace

int max_token_tile(Isa isa) {
  switch (isa) {
    case Isa::kAvx512: return 6;  // 24 of 32 registers
    case Isa::kAvx2: return 3;    // 12 of 16
    case Isa::kScalar: return 2;
  }
  return 1;
}

MatmulPlan plan_matmul(const MatmulProblem& problem, Isa isa) {
  MatmulPlan plan;
  plan.isa = isa;
  const bool pairs = isa == Isa::kAvx512 && fits_bfloat16(problem.x) && fits_bfloat16(problem.weight);
  plan.compute = pairs ? ComputeClass::kBFloat16Pairs : ComputeClass::kFloat32;

  // As few tiles as possible, of equal size.
  const std::int64_t largest = max_token_tile(isa);
  const std::int64_t tiles = std::max<std::int64_t>(1, (problem.m + largest - 1) / largest);
  plan.token_tile = static_cast<int>(std::max<std::int64_t>(1, (problem.m + tiles - 1) / tiles));

  plan.expand_panel = tiles > 1;
  const std::int64_t row_bytes = std::min(problem.k, kBlockColumns) * (pairs ? 2 : 4);
  const std::int64_t rows =
      plan.expand_panel ? kPanelBytes / std::max<std::int64_t>(row_bytes, 1) : kMaxPanelRows;
  plan.panel_rows = std::clamp(rows / kRowGroup * kRowGroup, kRowGroup, kMaxPanelRows);
  return plan;
}

std::string to_string(const MatmulPlan& plan) {
  return fmt::format("{} {} {} of {} rows x {} tokens", isa_name(plan.isa),
                     plan.compute == ComputeClass::kBFloat16Pairs ? "bfloat16-pairs" : "float32",
                     plan.expand_panel ? "panel" : "stream", plan.panel_rows, plan.token_tile);
}

}  // namespace grille::kernels
