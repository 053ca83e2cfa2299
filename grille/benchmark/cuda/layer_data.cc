#include "grille/benchmark/cuda/layer_data.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "grille/benchmark/cuda/random_data.h"
#include "grille/kernels/cuda/launch.h"

namespace grille::benchmark {
namespace {

constexpr float kXScale = 1.0f / 64, kWeightScale = 1.0f / 128;  // of Scaling::kTensor
constexpr std::size_t kScaleStep = 64;  // floats between them: cuBLASLt wants scales aligned to 16 bytes

// Standard deviation of the stored numbers: 8-bit types use their range, with the largest of millions of
// normal numbers (about 5 deviations) near its end.
float deviation(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3: return 90.0f;
    case DType::kInt8: return 25.0f;
    default: return 1.0f;
  }
}

std::size_t size_of(DType dtype, std::int64_t count) {
  return dtype_size(dtype) * static_cast<std::size_t>(count);
}

}  // namespace

LayerData::LayerData(const LayerShape& shape, std::int64_t largest_m, std::uint64_t seed,
                     std::int64_t l2_bytes, cudaStream_t stream)
    : shape_(shape),
      rows_((largest_m + 15) / 16 * 16),
      seed_(seed * 1000003 + static_cast<std::uint64_t>(shape.k * 31 + shape.n)),
      l2_bytes_(l2_bytes),
      stream_(stream),
      y_(size_of(DType::kFloat32, rows_ * shape.n)),
      x_row_scale_(size_of(DType::kFloat32, rows_)),
      weight_row_scale_(size_of(DType::kFloat32, shape.n)),
      tensor_scales_(2 * kScaleStep * sizeof(float)) {
  fill_uniform(x_row_scale_.data<float>(), rows_, 0.005f, 0.02f, seed_ + 1, stream_);
  fill_uniform(weight_row_scale_.data<float>(), shape.n, 0.005f, 0.02f, seed_ + 2, stream_);
  std::array<float, 2 * kScaleStep> scales{};
  scales[0] = kXScale;
  scales[kScaleStep] = kWeightScale;
  kernels::check_cuda(
      cudaMemcpy(tensor_scales_.data(), scales.data(), sizeof(scales), cudaMemcpyHostToDevice), "cudaMemcpy");
}

int LayerData::copies_for(double weight_bytes) const {
  return std::max(2, static_cast<int>(std::ceil(3.0 * static_cast<double>(l2_bytes_) / weight_bytes)));
}

ConstMatrixView LayerData::x(DType dtype, std::int64_t m) {
  DeviceMemory& memory = x_[dtype];
  if (memory.bytes() == 0) {
    memory = DeviceMemory(size_of(dtype, rows_ * shape_.k));
    fill_normal(memory.data(), dtype, rows_ * shape_.k, deviation(dtype), false, seed_ + 3, stream_);
  }
  return {memory.data(), dtype, m, shape_.k, shape_.k};
}

ConstMatrixView LayerData::weight(DType dtype, bool sparse, int copy) {
  std::vector<DeviceMemory>& list = weights_[{dtype, sparse}];
  while (static_cast<int>(list.size()) <= copy) {
    list.emplace_back(size_of(dtype, shape_.n * shape_.k));
    fill_normal(list.back().data(), dtype, shape_.n * shape_.k, deviation(dtype), sparse,
                seed_ + 16 + list.size(), stream_);
  }
  return {list[static_cast<std::size_t>(copy)].data(), dtype, shape_.n, shape_.k, shape_.k};
}

MatrixView LayerData::y(DType dtype, std::int64_t m) const {
  return {y_.data(), dtype, m, shape_.n, shape_.n};
}

ScaleView LayerData::x_scale(Scaling scaling) const {
  if (scaling == Scaling::kNone) return {};
  if (scaling == Scaling::kTensor) return {tensor_scales_.data<float>(), false};
  return {x_row_scale_.data<float>(), true};
}

ScaleView LayerData::weight_scale(Scaling scaling) const {
  if (scaling == Scaling::kNone) return {};
  if (scaling == Scaling::kTensor) return {tensor_scales_.data<float>() + kScaleStep, false};
  return {weight_row_scale_.data<float>(), true};
}

float LayerData::tensor_scale() const { return kXScale * kWeightScale; }

Product LayerData::product(const ContenderInfo& info, std::int64_t m, int copy, DType y_dtype) {
  return {x(info.dtype, m), weight(info.dtype, info.sparse, copy), x_scale(info.scaling),
          weight_scale(info.scaling), y(y_dtype, m)};
}

}  // namespace grille::benchmark
