#include "grille/tensors/allocate.h"

#include <cstring>

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"

namespace grille::tensors {

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device) {
  if (!device.is_cpu()) return at::empty(sizes, at::TensorOptions().dtype(dtype).device(device));
  return at::Tensor(at::detail::empty_cpu(sizes, dtype));
}

at::Tensor copy(const at::Tensor& tensor) {
  check(tensor.is_contiguous(), ErrorCode::kInvalidArgument, "copy: expected a contiguous tensor");
  if (!tensor.device().is_cpu()) return tensor.clone();
  at::Tensor result = empty(tensor.sizes(), tensor.scalar_type());
  const auto* from = static_cast<const std::byte*>(tensor.const_data_ptr());
  auto* to = static_cast<std::byte*>(result.mutable_data_ptr());
  constexpr std::int64_t kBytesPerThread = 128 * 1024;
  parallel_for(static_cast<std::int64_t>(tensor.nbytes()), kBytesPerThread,
               [&](std::int64_t begin, std::int64_t end) {
                 std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
               });
  return result;
}

}  // namespace grille::tensors
