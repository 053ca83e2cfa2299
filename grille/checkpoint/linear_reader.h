// One module's tensors in a source, and the checks that every form of a weight shares. Messages name file,
// tensor and place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "grille/checkpoint/compression_config.h"
#include "grille/checkpoint/tensor_source.h"
#include "grille/tensors/weight.h"

namespace grille::checkpoint {

class LinearReader {
 public:
  LinearReader(const TensorSource& source, const std::string& module, std::int64_t rows, std::int64_t cols)
      : source_(source), module_(module), rows_(rows), cols_(cols) {}

  const TensorSource& source() const { return source_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  std::string name(const char* suffix) const { return module_ + suffix; }
  bool has(const char* suffix) const { return source_.has(module_ + suffix); }

  // Values without scales, in the form in which they are stored.
  tensors::Weight dense() const;           // .weight
  tensors::Weight two_four() const;        // .compressed, .bitmask, .shape
  tensors::Weight bitmask() const;         // the same of sparse-bitmask, with .row_offsets: dense
  tensors::Weight packed(int bits) const;  // .weight_packed, .weight_shape: dense int8
  // With its scales: .weight_packed, .scale_packed, .meta.
  tensors::Weight marlin_24(const QuantizationScheme& scheme) const;

  // Sets scale, zero_point and group_index of a weight that config.json says is quantized so.
  void read_scales(tensors::Weight& weight, const QuantizationScheme& scheme) const;

  const TensorInfo& expect(const std::string& name, const std::vector<std::int64_t>& shape) const;
  void check_is(const std::string& name, const TensorInfo& info, DType dtype) const;
  void check_value_dtype(const std::string& name, DType dtype) const;
  void check_finite(const std::string& name, std::int64_t row, const std::byte* data, DType dtype,
                    std::int64_t count) const;
  // `shape_suffix` holds the dense shape, [2] or [2, 1], int64 or int32.
  void check_shape_tensor(const char* shape_suffix) const;
  // Every scale is finite and positive. `suffix` names the tensor.
  void check_scales(const char* suffix, const at::Tensor& scale) const;
  // Mask bits that a row has no columns for are 0.
  void check_mask_tail(const std::string& name, std::int64_t row, const std::uint8_t* mask) const;

 private:
  [[noreturn]] void fail_mask(const std::string& name, std::int64_t row, const std::uint8_t* mask) const;
  at::Tensor read_scale(const QuantizationScheme& scheme) const;
  at::Tensor read_zero_point(const QuantizationScheme& scheme, const at::Tensor& scale) const;
  void check_zero_point() const;
  at::Tensor read_group_index(const QuantizationScheme& scheme) const;

  const TensorSource& source_;
  const std::string& module_;
  std::int64_t rows_;
  std::int64_t cols_;
};

}  // namespace grille::checkpoint
