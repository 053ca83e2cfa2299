#include "grille/tensors/weight.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/kernels/pack_24.h"
#include "grille/kernels/unpack_24.h"
#include "grille/kernels/weight_bits.h"
#include "grille/tensors/views.h"

namespace grille::tensors {
namespace {

constexpr std::int64_t kColumnMultiple = 64;  // to which rows of a 2:4 weight are padded
constexpr std::int64_t kRowGrain = 16;

bool is_weight_dtype(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16 ||
         dtype == DType::kFloat8E4M3 || dtype == DType::kInt8;
}

// Calls body(Bits{}) with the unsigned integer type of an element's size.
template <typename Body>
void with_bits(DType dtype, Body&& body) {
  switch (dtype_size(dtype)) {
    case 4: body(std::uint32_t{}); return;
    case 2: body(std::uint16_t{}); return;
    default: body(std::uint8_t{}); return;
  }
}

std::uint8_t* mask_row(const Weight& weight, std::int64_t row) {
  return static_cast<std::uint8_t*>(weight.mask.mutable_data_ptr()) + row * weight.mask.size(1);
}

template <typename Bits>
Bits* value_row(const Weight& weight, std::int64_t row) {
  return static_cast<Bits*>(weight.values.mutable_data_ptr()) + row * weight.values.size(1);
}

}  // namespace

DType Weight::dtype() const { return dtype_of(values); }

std::int64_t Weight::stored_bytes() const {
  const std::int64_t element = static_cast<std::int64_t>(dtype_size(dtype()));
  const std::int64_t row_bytes =
      format == WeightFormat::kTwoFour ? cols / 2 * element + (cols + 7) / 8 : cols * element;
  std::int64_t bytes = rows * row_bytes * bits / 8;
  if (format == WeightFormat::kTwoFour && bits != 8) bytes = rows * (cols / 2 * bits / 8 + (cols + 7) / 8);
  for (const at::Tensor* tensor : {&scale, &zero_point, &group_index})
    bytes += tensor->defined() ? static_cast<std::int64_t>(tensor->nbytes()) : 0;
  return bytes;
}

Weight dense_weight(at::Tensor values, at::Tensor scale) {
  check(values.defined() && values.dim() == 2 && values.is_contiguous() && values.device().is_cpu(),
        ErrorCode::kInvalidArgument, "dense weight: expected a contiguous [rows, cols] CPU tensor");
  const DType dtype = dtype_of(values);
  check(is_weight_dtype(dtype), ErrorCode::kUnsupported,
        "dense weight: expected float32, bfloat16, float16, float8_e4m3fn or int8, got {}",
        dtype_name(dtype));
  check(scale.defined() == (dtype == DType::kFloat8E4M3 || dtype == DType::kInt8),
        ErrorCode::kInvalidArgument,
        "dense weight: a scale goes with float8_e4m3fn and int8 and with nothing else, got {} {} scale",
        dtype_name(dtype), scale.defined() ? "with a" : "without");
  check(!scale.defined() || (scale.dim() == 1 && scale.size(0) == values.size(0) && scale.is_contiguous()),
        ErrorCode::kInvalidArgument, "dense weight: expected one scale for each of {} rows", values.size(0));
  const std::int64_t rows = values.size(0);
  const std::int64_t cols = values.size(1);
  return {WeightFormat::kDense, rows, cols, std::move(values), {}, std::move(scale)};
}

Weight empty_two_four(std::int64_t rows, std::int64_t cols, DType dtype) {
  check(rows >= 0 && cols >= 0 && cols % 4 == 0, ErrorCode::kInvalidArgument,
        "2:4 weight: expected a number of columns that is a multiple of 4, got [{}, {}]", rows, cols);
  check(is_weight_dtype(dtype), ErrorCode::kUnsupported,
        "2:4 weight: expected float32, bfloat16, float16, float8_e4m3fn or int8, got {}", dtype_name(dtype));
  const std::int64_t padded = (cols + kColumnMultiple - 1) / kColumnMultiple * kColumnMultiple;
  Weight weight{WeightFormat::kTwoFour,
                rows,
                cols,
                at::empty({rows, padded / 2}, torch_dtype(dtype)),
                at::empty({rows, padded / 8}, at::kByte),
                {}};
  if (padded == cols) return weight;
  const std::size_t element = dtype_size(dtype);
  const std::uint8_t both = formats::kFirstTwoBitmask | (formats::kFirstTwoBitmask << 4);
  for (std::int64_t row = 0; row < rows; ++row) {
    auto* values = static_cast<std::byte*>(weight.values.mutable_data_ptr()) +
                   static_cast<std::size_t>(row * padded / 2) * element;
    std::memset(values + static_cast<std::size_t>(cols / 2) * element, 0,
                static_cast<std::size_t>((padded - cols) / 2) * element);
    std::memset(mask_row(weight, row) + cols / 8, both, static_cast<std::size_t>(padded / 8 - cols / 8));
  }
  return weight;
}

std::int64_t first_bad_group(const std::uint8_t* bitmask, std::int64_t cols) {
  for (std::int64_t group = 0; group < cols / 4; ++group) {
    const unsigned nibble = (bitmask[group / 2] >> (group % 2 * 4)) & 0xfu;
    if (std::popcount(nibble) != 2) return group;
  }
  return -1;
}

bool set_two_four_row(Weight& weight, std::int64_t row, const void* values, const std::uint8_t* bitmask) {
  std::uint8_t* mask = mask_row(weight, row);
  const std::int64_t whole_bytes = weight.cols / 8;
  unsigned good = 1;
  for (std::int64_t i = 0; i < whole_bytes; ++i) {
    const unsigned byte = bitmask[i];
    const unsigned pairs = byte - ((byte >> 1) & 0x55u);  // set bits of each pair, then of each four
    good &= static_cast<unsigned>(((pairs & 0x33u) + ((pairs >> 2) & 0x33u)) == 0x22u);
    mask[i] = static_cast<std::uint8_t>(byte);
  }
  if (weight.cols % 8 == 4) {
    const unsigned nibble = bitmask[whole_bytes] & 0xfu;
    good &= static_cast<unsigned>(std::popcount(nibble) == 2);
    mask[whole_bytes] = static_cast<std::uint8_t>(nibble | (formats::kFirstTwoBitmask << 4));
  }
  if (weight.dtype() == DType::kInt8) {  // whose -128 looks like a -0
    std::memcpy(value_row<std::uint8_t>(weight, row), values, static_cast<std::size_t>(weight.cols / 2));
    return good != 0;
  }
  with_bits(weight.dtype(), [&](auto zero) {
    using Bits = decltype(zero);
    constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
    Bits* to = value_row<Bits>(weight, row);
    const auto* from = static_cast<const Bits*>(values);
    for (std::int64_t i = 0; i < weight.cols / 2; ++i) to[i] = (from[i] & kMagnitude) == 0 ? zero : from[i];
  });
  return good != 0;
}

Weight two_four_from_dense(const at::Tensor& dense, const std::string& name) {
  check(dense.defined() && dense.dim() == 2 && dense.device().is_cpu(), ErrorCode::kInvalidArgument,
        "{}: expected a [rows, cols] CPU tensor", name);
  const at::Tensor source = dense.contiguous();
  Weight weight = empty_two_four(source.size(0), source.size(1), dtype_of(source));
  kernels::TwoFourViolation violation;
  kernels::Pack24Args args;
  args.dense = matrix_view(source);
  args.packed = {weight.values.mutable_data_ptr(), mask_row(weight, 0), weight.values.size(1),
                 weight.mask.size(1), kernels::TwoFourPositions::kBitmask};
  args.violation = &violation;
  kernels::pack_24(args);
  kernels::check_packed(violation, name);
  return weight;
}

Weight compacted(Weight weight) {
  if (weight.format == WeightFormat::kTwoFour || weight.cols % 4 != 0 || weight.zero_point.defined())
    return weight;
  const kernels::WeightBits kind = kernels::weight_bits(weight.dtype());
  std::atomic<bool> follows = true;
  kernels::with_bits_of(weight.dtype(), [&](auto zero) {
    using Bits = decltype(zero);
    const auto mask = static_cast<Bits>(kind.magnitude_mask);
    const auto* values = static_cast<const Bits*>(weight.values.const_data_ptr());
    parallel_for(weight.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end && follows.load(std::memory_order_relaxed); ++row) {
        const Bits* group = values + row * weight.cols;
        int most = 0;
        for (std::int64_t i = 0; i < weight.cols; i += 4) {
          const auto kept = [&](std::int64_t j) { return (group[i + j] & mask) != 0 ? 1 : 0; };
          most = std::max(most, kept(0) + kept(1) + kept(2) + kept(3));
        }
        if (most > 2) follows.store(false, std::memory_order_relaxed);
      }
    });
  });
  if (!follows) return weight;
  Weight packed = two_four_from_dense(weight.values, "2:4 weight");
  weight.format = WeightFormat::kTwoFour;
  weight.values = std::move(packed.values);
  weight.mask = std::move(packed.mask);
  return weight;
}

formats::TwoFourBitmaskView two_four_view(const Weight& weight) {
  check(weight.format == WeightFormat::kTwoFour, ErrorCode::kInvalidArgument,
        "expected a 2:4 weight, got a dense one");
  return {weight.values.const_data_ptr(),
          static_cast<const std::uint8_t*>(weight.mask.const_data_ptr()),
          weight.dtype(),
          weight.rows,
          weight.cols,
          weight.values.size(1),
          weight.mask.size(1)};
}

at::Tensor to_dense_values(const Weight& weight) {
  if (weight.format == WeightFormat::kDense) return weight.values;
  at::Tensor dense = at::empty({weight.rows, weight.cols}, weight.values.options());
  const formats::TwoFourBitmaskView view = two_four_view(weight);
  kernels::TwoFourViolation violation;
  kernels::Unpack24Args args;
  args.packed = {view.values, view.mask, view.value_stride, view.mask_stride,
                 kernels::TwoFourPositions::kBitmask};
  args.dense = matrix_view(dense);
  args.violation = &violation;
  kernels::unpack_24(args);
  kernels::check_unpacked(violation, "2:4 weight");
  return dense;
}

}  // namespace grille::tensors
