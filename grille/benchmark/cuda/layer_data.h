// x, weights and y of one layer shape, shared by all contenders.
#pragma once

#include <map>
#include <vector>

#include "grille/benchmark/cuda/contender.h"
#include "grille/benchmark/cuda/device_memory.h"
#include "grille/benchmark/points.h"

namespace grille::benchmark {

class LayerData {
 public:
  // Rows of x and y are there up to the next multiple of 16 above `largest_m`.
  LayerData(const LayerShape& shape, std::int64_t largest_m, std::uint64_t seed, std::int64_t l2_bytes,
            cudaStream_t stream);

  const LayerShape& shape() const { return shape_; }
  cudaStream_t stream() const { return stream_; }

  // Weights that must be there so that they exceed 3 L2 caches and are at least two.
  int copies_for(double weight_bytes) const;

  ConstMatrixView x(DType dtype, std::int64_t m);
  // Dense storage; `sparse`: two of every four are zero.
  ConstMatrixView weight(DType dtype, bool sparse, int copy);
  MatrixView y(DType dtype, std::int64_t m) const;
  // 1 / 100 or so, so that 8-bit products come out near the size of x.
  ScaleView x_scale(Scaling scaling) const;
  ScaleView weight_scale(Scaling scaling) const;
  float tensor_scale() const;  // both scales of Scaling::kTensor together

  // What `info` computes at m with a copy, y of type `y_dtype`.
  Product product(const ContenderInfo& info, std::int64_t m, int copy, DType y_dtype);

 private:
  LayerShape shape_;
  std::int64_t rows_;
  std::uint64_t seed_;
  std::int64_t l2_bytes_;
  cudaStream_t stream_;
  std::map<DType, DeviceMemory> x_;
  std::map<std::pair<DType, bool>, std::vector<DeviceMemory>> weights_;
  DeviceMemory y_, x_row_scale_, weight_row_scale_, tensor_scales_;
};

}  // namespace grille::benchmark
