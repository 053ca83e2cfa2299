#include <algorithm>
#include <cstring>

#include "grille/base/error.h"
#include "grille/checkpoint/compressed_tensors.h"
#include "grille/checkpoint/quote_name.h"
#include "grille/tensors/views.h"

namespace grille::checkpoint {
namespace {

using tensors::Weight;

constexpr std::int64_t kScratchBytes = 1 << 20;

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// Calls body(begin, end) for pieces of about 1 MiB.
template <typename Body>
void for_row_blocks(std::int64_t rows, std::int64_t row_bytes, Body&& body) {
  const std::int64_t block = std::max<std::int64_t>(kScratchBytes / std::max<std::int64_t>(row_bytes, 1), 1);
  for (std::int64_t begin = 0; begin < rows; begin += block) body(begin, std::min(begin + block, rows));
}

// Rows of values and mask without their padding.
void write_two_four(SafetensorsWriter& writer, const std::string& module, const Weight& weight) {
  const formats::TwoFourBitmaskView view = tensors::two_four_view(weight);
  const std::int64_t element = static_cast<std::int64_t>(dtype_size(view.dtype));
  const std::int64_t value_bytes = view.cols / 2 * element;
  const std::int64_t mask_bytes = (view.cols + 7) / 8;
  const auto* values = static_cast<const std::byte*>(view.values);
  std::vector<std::byte> scratch;
  for_row_blocks(view.rows, value_bytes, [&](std::int64_t begin, std::int64_t end) {
    scratch.resize(static_cast<std::size_t>((end - begin) * value_bytes));
    for (std::int64_t row = begin; row < end; ++row) {
      std::memcpy(scratch.data() + (row - begin) * value_bytes, values + row * view.value_stride * element,
                  static_cast<std::size_t>(value_bytes));
    }
    writer.write_rows(module + ".compressed", begin, end, scratch);
    scratch.resize(static_cast<std::size_t>((end - begin) * mask_bytes));
    for (std::int64_t row = begin; row < end; ++row) {
      std::byte* to = scratch.data() + (row - begin) * mask_bytes;
      std::memcpy(to, view.mask + row * view.mask_stride, static_cast<std::size_t>(mask_bytes));
      if (view.cols % 8 == 4) to[mask_bytes - 1] &= std::byte{0x0f};  // the absent group
    }
    writer.write_rows(module + ".bitmask", begin, end, scratch);
  });
  const std::int64_t shape[2] = {view.rows, view.cols};
  writer.write(module + ".shape", std::as_bytes(std::span(shape)));
}

void write_dense(SafetensorsWriter& writer, const std::string& module, const Weight& weight) {
  const std::int64_t row_bytes = weight.cols * static_cast<std::int64_t>(dtype_size(weight.dtype()));
  for_row_blocks(weight.rows, row_bytes, [&](std::int64_t begin, std::int64_t end) {
    Weight block = weight;
    block.rows = end - begin;
    block.values = weight.values.slice(0, begin, end);
    if (weight.mask.defined()) block.mask = weight.mask.slice(0, begin, end);
    writer.write_rows(module + ".weight", begin, end, bytes_of(tensors::to_dense_values(block)));
  });
}

}  // namespace

std::vector<TensorSpec> linear_tensors(const std::string& module, const LinearForm& form) {
  std::vector<TensorSpec> result;
  if (form.two_four) {
    result.push_back({module + ".compressed", form.dtype, {form.rows, form.cols / 2}});
    result.push_back({module + ".bitmask", DType::kUInt8, {form.rows, (form.cols + 7) / 8}});
    result.push_back({module + ".shape", DType::kInt64, {2, 1}});
  } else {
    result.push_back({module + ".weight", form.dtype, {form.rows, form.cols}});
  }
  if (form.scale_dtype) result.push_back({module + ".weight_scale", *form.scale_dtype, {form.rows, 1}});
  return result;
}

LinearForm form_of(const Weight& weight, bool two_four) {
  LinearForm form{two_four, weight.rows, weight.cols, weight.dtype(), std::nullopt};
  if (weight.quantized()) form.scale_dtype = tensors::dtype_of(weight.scale);
  return form;
}

void write_linear(SafetensorsWriter& writer, const std::string& module, const Weight& weight, bool two_four) {
  check(!two_four || weight.format == tensors::WeightFormat::kTwoFour, ErrorCode::kInvalidArgument,
        "write_linear: {} is dense and cannot be written as 2:4", module);
  if (two_four) {
    write_two_four(writer, module, weight);
  } else {
    write_dense(writer, module, weight);
  }
  if (weight.quantized()) writer.write(module + ".weight_scale", bytes_of(weight.scale));
}

}  // namespace grille::checkpoint
