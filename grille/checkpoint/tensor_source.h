// Named tensors in a file, read piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grille/base/dtype.h"

namespace grille::checkpoint {

struct TensorInfo {
  DType dtype = DType::kFloat32;    // of what read() yields
  std::vector<std::int64_t> shape;  // rows first; empty for a scalar
  std::int64_t bytes = 0;           // elements * dtype_size(dtype)

  // The first dimension (1 for a scalar) and the bytes of one of its entries.
  std::int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  std::int64_t row_bytes() const { return rows() == 0 ? 0 : bytes / rows(); }
};

// "[576, 1536]"
std::string shape_text(const std::vector<std::int64_t>& shape);

// dtype, shape and the bytes that follow; nothing if the product overflows or a dimension is negative.
std::optional<TensorInfo> make_tensor_info(DType dtype, std::vector<std::int64_t> shape);

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // Everything that the header says, checked against the file's size when it was opened.
  virtual const std::map<std::string, TensorInfo>& tensors() const = 0;

  // Writes rows [begin, end) of the first dimension to `out`, whose size must be theirs. Reads from the file
  // (dequantizing where info().dtype is not the stored type) and keeps nothing in memory afterwards. May be
  // called from several threads. Throws Error{kNotFound} for an unknown name, Error{kInvalidArgument} for a
  // wrong range or size, Error{kCorruptData} if the file changed.
  virtual void read_rows(const std::string& name, std::int64_t begin, std::int64_t end,
                         std::span<std::byte> out) const = 0;

  // "model.safetensors: tensor 'lm_head.weight'", for messages.
  virtual std::string locate(const std::string& name) const = 0;

  // Bytes of all files together.
  virtual std::int64_t file_bytes() const = 0;

  bool has(const std::string& name) const { return tensors().contains(name); }
  // Throws Error{kNotFound}.
  const TensorInfo& info(const std::string& name) const;
  void read(const std::string& name, std::span<std::byte> out) const;
  at::Tensor read_tensor(const std::string& name) const;

 protected:
  // The checks of read_rows(); returns the tensor's info.
  const TensorInfo& check_read(const std::string& name, std::int64_t begin, std::int64_t end,
                               std::size_t out_bytes) const;
};

}  // namespace grille::checkpoint
