#include "grille/kernels/cuda/select_24.h"

#include "grille/kernels/cuda/device/units.cuh"
#include "grille/kernels/keep_bits.h"
#include "grille/kernels/pack_24_plan.h"

namespace grille::kernels {
namespace {

struct SelectParams {
  const float* scores;
  std::int64_t rows, cols, row_stride;
  int keep, group;
  std::uint8_t* mask;
  std::int64_t mask_stride;
  bool as_bits;
  TwoFourViolation* violation;
  std::int64_t units_per_row;
};

template <int kGroup>
__device__ std::uint32_t select_group(const SelectParams& p, std::int64_t row, std::int64_t group) {
  const int size = kGroup > 0 ? kGroup : p.group;
  float scores[kGroup > 0 ? kGroup : 32];
  const float* source = p.scores + row * p.row_stride + group * size;
  for (int j = 0; j < size; ++j) scores[j] = source[j];
  const std::uint32_t bits = keep_bits<kGroup>(scores, p.keep, size);
  if (bits == 0) report_violation(p.violation, row * (p.cols / size) + group);
  return bits;
}

// A thread writes the mask of 8 columns as bits, or of one group as bytes. Groups that straddle the
// 8 columns are worked out by each thread that needs them.
template <int kGroup>
__global__ void __launch_bounds__(kMostUnitThreads) select_kernel(const SelectParams p) {
  const int size = kGroup > 0 ? kGroup : p.group;
  for_units(p.rows, p.units_per_row, [&](std::int64_t row, std::int64_t unit) {
    std::uint8_t* mask = p.mask + row * p.mask_stride;
    if (!p.as_bits) {
      const std::uint32_t bits = select_group<kGroup>(p, row, unit);
      for (int j = 0; j < size; ++j) mask[unit * size + j] = static_cast<std::uint8_t>((bits >> j) & 1u);
      return;
    }
    const std::int64_t end = min(8 * unit + 8, p.cols);
    std::uint32_t byte = 0;
    for (std::int64_t group = 8 * unit / size; group * size < end; ++group) {
      const std::uint64_t bits = select_group<kGroup>(p, row, group);
      const std::int64_t offset = group * size - 8 * unit;  // of the group in the byte, -31 to 7
      byte |= static_cast<std::uint32_t>(offset >= 0 ? bits << offset : bits >> -offset);
    }
    mask[unit] = static_cast<std::uint8_t>(byte);
  });
}

__global__ void finish_select_kernel(const SelectParams p) {
  if (take_violation(p.violation, p.cols / p.group) < 0) return;
  const float* source = p.scores + p.violation->row * p.row_stride + p.violation->group * p.group;
  for (int j = 0; j < min(p.group, 4); ++j) p.violation->values[j] = source[j];
}

}  // namespace

void select_24_cuda(const Select24Args& args) {
  const CurrentDevice device(args.stream.device.index);
  const ConstMatrixView& scores = args.scores;
  const bool as_bits = args.mask.form == KeepMaskForm::kBits;
  const std::int64_t units = as_bits ? (scores.cols + 7) / 8 : scores.cols / args.group;
  const Pack24Plan plan = plan_units(scores.rows, units, current_device_caps());
  const SelectParams params{static_cast<const float*>(scores.data),
                            scores.rows,
                            scores.cols,
                            scores.row_stride,
                            args.keep,
                            args.group,
                            args.mask.data,
                            args.mask.row_stride,
                            as_bits,
                            args.violation,
                            units};
  const auto kernel = args.group == 4   ? select_kernel<4>
                      : args.group == 8 ? select_kernel<8>
                                        : select_kernel<0>;
  launch_units("select_24", kernel, finish_select_kernel, params, plan, args.stream);
}

}  // namespace grille::kernels
