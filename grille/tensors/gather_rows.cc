#include <algorithm>
#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include "grille/base/error.h"
#include "grille/tensors/weight.h"

namespace grille::tensors {

namespace {

// On a device, by torch.
at::Tensor select_rows(const Weight& weight, const at::Tensor& ids, at::ScalarType dtype) {
  const at::Tensor index = ids.to(weight.values.device());
  if (!weight.quantized()) return weight.values.index_select(0, index).to(dtype);
  const at::Tensor codes = weight.values.view(at::kByte).index_select(0, index).view(at::kFloat8_e4m3fn);
  const at::Tensor scales = weight.scale.index_select(0, index).to(at::kFloat).unsqueeze(1);
  return codes.to(at::kFloat).mul_(scales).to(dtype);
}

}  // namespace

at::Tensor gather_rows(const Weight& weight, const std::vector<std::int32_t>& ids, at::ScalarType dtype) {
  check(weight.format == WeightFormat::kDense, ErrorCode::kUnsupported,
        "embedding: a 2:4 table is not supported");
  const std::int64_t count = static_cast<std::int64_t>(ids.size());
  for (const std::int32_t id : ids) {
    check(id >= 0 && id < weight.rows, ErrorCode::kInvalidArgument,
          "embedding: token id {} is outside the vocabulary of {}", id, weight.rows);
  }
  const at::Tensor index = at::empty({count}, at::kInt);
  std::copy(ids.begin(), ids.end(), index.mutable_data_ptr<std::int32_t>());
  if (!weight.values.device().is_cpu()) return select_rows(weight, index, dtype);
  at::Tensor rows = at::empty({count, weight.cols}, weight.values.options());
  const std::size_t row_bytes = static_cast<std::size_t>(weight.cols) * dtype_size(weight.dtype());
  const auto* from = static_cast<const std::byte*>(weight.values.const_data_ptr());
  auto* to = static_cast<std::byte*>(rows.mutable_data_ptr());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t id = ids[static_cast<std::size_t>(i)];
    std::memcpy(to + static_cast<std::size_t>(i) * row_bytes, from + static_cast<std::size_t>(id) * row_bytes,
                row_bytes);
  }
  if (!weight.quantized()) return rows.to(dtype);
  const at::Tensor scales = weight.scale.index_select(0, index).to(at::kFloat).unsqueeze(1);
  return rows.to(at::kFloat).mul_(scales).to(dtype);
}

}  // namespace grille::tensors
