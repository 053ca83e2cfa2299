#include "grille/checkpoint/tensor_source.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include "grille/base/error.h"
#include "grille/tensors/views.h"

namespace grille::checkpoint {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::optional<TensorInfo> make_tensor_info(DType dtype, std::vector<std::int64_t> shape) {
  std::int64_t bytes = static_cast<std::int64_t>(dtype_size(dtype));
  bool empty = false;
  for (const std::int64_t size : shape) {
    // An empty tensor's other dimensions must multiply too: strides are computed from them.
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes))
      return std::nullopt;
    empty |= size == 0;
  }
  return TensorInfo{dtype, std::move(shape), empty ? 0 : bytes};
}

const TensorInfo& TensorSource::info(const std::string& name) const {
  const auto found = tensors().find(name);
  check(found != tensors().end(), ErrorCode::kNotFound, "{} is missing", locate(name));
  return found->second;
}

const TensorInfo& TensorSource::check_read(const std::string& name, std::int64_t begin, std::int64_t end,
                                           std::size_t out_bytes) const {
  const TensorInfo& tensor = info(name);
  check(0 <= begin && begin <= end && end <= tensor.rows() &&
            out_bytes == static_cast<std::size_t>((end - begin) * tensor.row_bytes()),
        ErrorCode::kInvalidArgument, "{}: cannot read rows {} to {} of {} into {} bytes", locate(name), begin,
        end, tensor.rows(), out_bytes);
  return tensor;
}

void TensorSource::read(const std::string& name, std::span<std::byte> out) const {
  read_rows(name, 0, info(name).rows(), out);
}

at::Tensor TensorSource::read_tensor(const std::string& name) const {
  const TensorInfo& tensor = info(name);
  at::Tensor result = at::empty(tensor.shape, tensors::torch_dtype(tensor.dtype));
  if (tensor.bytes == 0) return result;
  read(name, {static_cast<std::byte*>(result.mutable_data_ptr()), static_cast<std::size_t>(tensor.bytes)});
  return result;
}

}  // namespace grille::checkpoint
