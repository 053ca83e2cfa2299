#include "grille/kernels/cuda/unpack_24.h"

#include "grille/kernels/cuda/device/units.cuh"
#include "grille/kernels/cuda/device/vector_access.cuh"
#include "grille/kernels/pack_24_plan.h"
#include "grille/kernels/two_four_group.h"

namespace grille::kernels {
namespace {

template <typename T>
struct UnpackParams {
  T* dense;
  std::int64_t rows, cols, row_stride;
  const T* values;
  const std::uint8_t* positions;
  std::int64_t value_stride, position_stride;
  TwoFourTables tables;
  TwoFourViolation* violation;
  std::int64_t units_per_row;
  bool vector_dense, vector_values;
};

template <typename T>
__device__ void unpack_half(const UnpackParams<T>& p, std::int64_t row, std::int64_t group, int half,
                            std::uint32_t nibble, const Elements<T, 4>& in, Elements<T, 8>& out) {
  T weights[4];
  const bool good = unpack_group(nibble, in.element[2 * half], in.element[2 * half + 1], p.tables, weights);
#pragma unroll
  for (int j = 0; j < 4; ++j) out.element[4 * half + j] = weights[j];
  if (!good) report_violation(p.violation, row * (p.cols / 4) + group);
}

// A thread unpacks a unit: 4 values and a byte of positions -> 8 dense columns (4 in a last, half unit).
template <typename T>
__global__ void __launch_bounds__(kMostUnitThreads) unpack_kernel(const UnpackParams<T> p) {
  for_units(p.rows, p.units_per_row, [&](std::int64_t row, std::int64_t unit) {
    const T* source = p.values + row * p.value_stride + 4 * unit;
    T* target = p.dense + row * p.row_stride + 8 * unit;
    const std::uint32_t byte = p.positions[row * p.position_stride + unit];
    Elements<T, 4> in = {};
    Elements<T, 8> out;
    if (8 * unit + 8 <= p.cols) {
      load(in, source, p.vector_values);
      unpack_half(p, row, 2 * unit, 0, byte & 0xfu, in, out);
      unpack_half(p, row, 2 * unit + 1, 1, byte >> 4, in, out);
      store(target, out, p.vector_dense);
    } else {
      in.element[0] = source[0];
      in.element[1] = source[1];
      unpack_half(p, row, 2 * unit, 0, byte & 0xfu, in, out);
#pragma unroll
      for (int j = 0; j < 4; ++j) target[j] = out.element[j];
    }
  });
}

template <typename T>
__global__ void finish_unpack_kernel(const UnpackParams<T> p) {
  if (take_violation(p.violation, p.cols / 4) < 0) return;
  const std::int64_t group = p.violation->group;
  const std::uint32_t byte = p.positions[p.violation->row * p.position_stride + group / 2];
  p.violation->nibble = (byte >> (4 * (group % 2))) & 0xfu;
}

template <typename T>
void launch(const Unpack24Args& args) {
  const MatrixView& dense = args.dense;
  const ConstPackedTwoFour& packed = args.packed;
  const Pack24Plan plan = plan_unpack_24(dense, packed, current_device_caps());
  const UnpackParams<T> params{static_cast<T*>(dense.data),
                               dense.rows,
                               dense.cols,
                               dense.row_stride,
                               static_cast<const T*>(packed.values),
                               packed.positions,
                               packed.value_stride,
                               packed.position_stride,
                               two_four_tables(packed.form),
                               args.violation,
                               plan.units_per_row,
                               plan.vector_dense,
                               plan.vector_values};
  launch_units("unpack_24", unpack_kernel<T>, finish_unpack_kernel<T>, params, plan, args.stream);
}

}  // namespace

void unpack_24_cuda(const Unpack24Args& args) {
  const CurrentDevice device(args.stream.device.index);
  with_bits_of(args.dense.dtype, [&](auto bits) { launch<decltype(bits)>(args); });
}

}  // namespace grille::kernels
