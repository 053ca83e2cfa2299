#include <algorithm>
#include <cstring>

#include "grille/base/error.h"
#include "grille/checkpoint/compressed_tensors.h"
#include "grille/checkpoint/write_packed.h"
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

// The values at their dense places, a few rows at a time: body(begin, values of the rows).
template <typename Body>
void for_dense_rows(const Weight& weight, Body&& body) {
  const std::int64_t row_bytes = weight.cols * static_cast<std::int64_t>(dtype_size(weight.dtype()));
  for_row_blocks(weight.rows, row_bytes, [&](std::int64_t begin, std::int64_t end) {
    Weight block = weight;
    block.rows = end - begin;
    block.values = weight.values.slice(0, begin, end);
    if (weight.mask.defined()) block.mask = weight.mask.slice(0, begin, end);
    body(begin, tensors::to_dense_values(block));
  });
}

void write_scales(SafetensorsWriter& writer, const std::string& module, const Weight& weight,
                  Encoding encoding) {
  if (!weight.quantized()) return;
  writer.write(module + ".weight_scale", bytes_of(weight.scale));
  if (weight.zero_point.defined()) {
    const bool packed = encoding == Encoding::kPacked;
    writer.write(module + ".weight_zero_point",
                 bytes_of(packed ? packed_zero_points(weight.zero_point, weight.bits) : weight.zero_point));
  }
  if (weight.group_index.defined()) writer.write(module + ".weight_g_idx", bytes_of(weight.group_index));
}

void check_fits(const std::string& module, const Weight& weight, Encoding encoding) {
  const bool two_four = weight.format == tensors::WeightFormat::kTwoFour;
  check(encoding != Encoding::kTwoFour || two_four, ErrorCode::kInvalidArgument,
        "write_linear: {} is dense and cannot be written as 2:4", module);
  check(encoding != Encoding::kPacked || weight.dtype() == DType::kInt8, ErrorCode::kInvalidArgument,
        "write_linear: {} is {}, not integers to be packed", module, dtype_name(weight.dtype()));
  check(encoding != Encoding::kMarlin24 || (two_four && fits_marlin_24(form_of(weight, Encoding::kTwoFour))),
        ErrorCode::kInvalidArgument, "write_linear: {} cannot be written as marlin-24", module);
}

}  // namespace

void write_linear(SafetensorsWriter& writer, const std::string& module, const Weight& weight,
                  Encoding encoding) {
  check_fits(module, weight, encoding);
  switch (encoding) {
    case Encoding::kMarlin24: return write_marlin_24(writer, module, weight);
    case Encoding::kTwoFour: write_two_four(writer, module, weight); break;
    case Encoding::kPlain:
      for_dense_rows(weight, [&](std::int64_t begin, const at::Tensor& rows) {
        writer.write_rows(module + ".weight", begin, begin + rows.size(0), bytes_of(rows));
      });
      break;
    case Encoding::kPacked: {
      for_dense_rows(weight, [&](std::int64_t begin, const at::Tensor& rows) {
        write_packed_rows(writer, module, begin, rows, weight.bits);
      });
      const std::int64_t shape[2] = {weight.rows, weight.cols};
      writer.write(module + ".weight_shape", std::as_bytes(std::span(shape)));
      break;
    }
  }
  write_scales(writer, module, weight, encoding);
}

}  // namespace grille::checkpoint
