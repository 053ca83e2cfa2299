#include "grille/kernels/pack_24_plan.h"

#include <algorithm>

#include <fmt/format.h>

namespace grille::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kWaves = 4;  // of resident blocks: enough that the last ones even out

bool rows_aligned(const void* data, std::int64_t row_bytes, std::int64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(alignment) == 0 &&
         row_bytes % alignment == 0;
}

Pack24Plan plan_two_four(const ConstMatrixView& dense, const void* values, std::int64_t value_stride,
                         std::int64_t units_per_row, const DeviceCaps& caps) {
  Pack24Plan plan = plan_units(dense.rows, units_per_row, caps);
  const auto size = static_cast<std::int64_t>(dtype_size(dense.dtype));
  plan.vector_dense = rows_aligned(dense.data, dense.row_stride * size, std::min<std::int64_t>(8 * size, 16));
  plan.vector_values = rows_aligned(values, value_stride * size, 4 * size);
  return plan;
}

}  // namespace

Pack24Plan plan_units(std::int64_t rows, std::int64_t units_per_row, const DeviceCaps& caps) {
  Pack24Plan plan;
  plan.threads = kThreads;
  plan.units_per_row = units_per_row;
  const std::int64_t resident =
      std::int64_t{caps.multiprocessors} * std::max(caps.threads_per_multiprocessor / kThreads, 1);
  const std::int64_t needed = (rows * units_per_row + kThreads - 1) / kThreads;
  plan.blocks = std::min(needed, resident * kWaves);
  return plan;
}

Pack24Plan plan_pack_24(const ConstMatrixView& dense, const PackedTwoFour& packed, const DeviceCaps& caps) {
  const std::int64_t units = std::max(packed.position_stride, (packed.value_stride + 3) / 4);
  return plan_two_four(dense, packed.values, packed.value_stride, units, caps);
}

Pack24Plan plan_unpack_24(const ConstMatrixView& dense, const ConstPackedTwoFour& packed,
                          const DeviceCaps& caps) {
  return plan_two_four(dense, packed.values, packed.value_stride, (dense.cols + 7) / 8, caps);
}

std::string to_string(const Pack24Plan& plan) {
  return fmt::format("{} units a row, {} threads x {} blocks, dense {}, values {}", plan.units_per_row,
                     plan.threads, plan.blocks, plan.vector_dense ? "vector" : "scalar",
                     plan.vector_values ? "vector" : "scalar");
}

}  // namespace grille::kernels
