#include "grille/kernels/cuda/pack_24.h"

#include "grille/kernels/cuda/device/units.cuh"
#include "grille/kernels/cuda/device/vector_access.cuh"
#include "grille/kernels/pack_24_plan.h"
#include "grille/kernels/two_four_group.h"

namespace grille::kernels {
namespace {

template <typename T>
struct PackParams {
  const T* dense;
  std::int64_t rows, cols, row_stride;
  T* values;
  std::uint8_t* positions;
  std::int64_t value_stride, position_stride;
  TwoFourPositions form;
  WeightBits kind;
  TwoFourTables tables;
  TwoFourViolation* violation;
  std::int64_t units_per_row;
  bool vector_dense, vector_values;
};

// Group `half` of a unit: its kept values go to out, its nibble is returned.
template <typename T>
__device__ std::uint32_t pack_half(const PackParams<T>& p, std::int64_t row, std::int64_t group, int half,
                                   const Elements<T, 8>& in, Elements<T, 4>& out) {
  T& first = out.element[2 * half];
  T& second = out.element[2 * half + 1];
  if (4 * group >= p.cols) {
    first = second = 0;
    return padding_nibble(p.form, group, p.value_stride);
  }
  const T weights[4] = {in.element[4 * half], in.element[4 * half + 1], in.element[4 * half + 2],
                        in.element[4 * half + 3]};
  const std::uint32_t nibble = pack_group(weights, p.kind, p.tables, first, second);
  if (nibble == 0) report_violation(p.violation, row * (p.cols / 4) + group);
  return nibble;
}

// A thread packs a unit: 8 dense columns -> 4 values and a byte of positions.
template <typename T>
__global__ void __launch_bounds__(kMostUnitThreads) pack_kernel(const PackParams<T> p) {
  for_units(p.rows, p.units_per_row, [&](std::int64_t row, std::int64_t unit) {
    Elements<T, 8> in = {};
    Elements<T, 4> out;
    const T* source = p.dense + row * p.row_stride + 8 * unit;
    if (8 * unit + 8 <= p.cols) {
      load(in, source, p.vector_dense);
    } else if (8 * unit < p.cols) {  // the last, half unit
#pragma unroll
      for (int j = 0; j < 4; ++j) in.element[j] = source[j];
    }
    const std::uint32_t low = pack_half(p, row, 2 * unit, 0, in, out);
    const std::uint32_t high = pack_half(p, row, 2 * unit + 1, 1, in, out);
    if (unit < p.position_stride) {
      p.positions[row * p.position_stride + unit] = static_cast<std::uint8_t>(low | (high << 4));
    }
    T* target = p.values + row * p.value_stride + 4 * unit;
    if (4 * unit + 4 <= p.value_stride) {
      store(target, out, p.vector_values);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (4 * unit + j < p.value_stride) target[j] = out.element[j];
      }
    }
  });
}

template <typename T>
__global__ void finish_pack_kernel(const PackParams<T> p) {
  const std::int64_t groups = p.cols / 4;
  if (take_violation(p.violation, groups) < 0) return;
  const T* source = p.dense + p.violation->row * p.row_stride + 4 * p.violation->group;
  const T weights[4] = {source[0], source[1], source[2], source[3]};
  p.violation->nibble = nonzero_nibble(weights, p.kind);
  for (int j = 0; j < 4; ++j) p.violation->values[j] = weight_value(p.kind, weights[j]);
}

template <typename T>
void launch(const Pack24Args& args) {
  const ConstMatrixView& dense = args.dense;
  const PackedTwoFour& packed = args.packed;
  const Pack24Plan plan = plan_pack_24(dense, packed, current_device_caps());
  const PackParams<T> params{static_cast<const T*>(dense.data),
                             dense.rows,
                             dense.cols,
                             dense.row_stride,
                             static_cast<T*>(packed.values),
                             packed.positions,
                             packed.value_stride,
                             packed.position_stride,
                             packed.form,
                             weight_bits(dense.dtype),
                             two_four_tables(packed.form),
                             args.violation,
                             plan.units_per_row,
                             plan.vector_dense,
                             plan.vector_values};
  launch_units("pack_24", pack_kernel<T>, finish_pack_kernel<T>, params, plan, args.stream);
}

}  // namespace

void pack_24_cuda(const Pack24Args& args) {
  const CurrentDevice device(args.stream.device.index);
  with_bits_of(args.dense.dtype, [&](auto bits) { launch<decltype(bits)>(args); });
}

}  // namespace grille::kernels
