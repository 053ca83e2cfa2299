#include "grille/tensors/weight.h"

#include <bit>
#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/tensors/finite.h"
#include "grille/tensors/views.h"

namespace grille::tensors {
namespace {

constexpr std::int64_t kColumnMultiple = 64;  // to which rows of a 2:4 weight are padded
constexpr std::int64_t kRowGrain = 16;        // rows a thread takes at least

bool is_weight_dtype(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16 ||
         dtype == DType::kFloat8E4M3;
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

template <typename Bits>
constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;

// Packs one dense row. Returns the first group with more than two non-zeros, or -1.
template <typename Bits>
std::int64_t pack_row(const Bits* dense, std::int64_t cols, Bits* values, std::uint8_t* mask) {
  for (std::int64_t group = 0; group < cols / 4; ++group) {
    const Bits* four = dense + group * 4;
    unsigned nonzero = 0;
    for (unsigned j = 0; j < 4; ++j) nonzero |= static_cast<unsigned>((four[j] & kMagnitude<Bits>) != 0) << j;
    const unsigned kept = formats::kept_columns(static_cast<std::uint8_t>(nonzero));
    if (kept == 0) return group;
    const unsigned first = static_cast<unsigned>(std::countr_zero(kept));
    const unsigned second = 31u - static_cast<unsigned>(std::countl_zero(kept));
    // Not the element itself where it is zero: -0 becomes +0.
    values[group * 2] = (nonzero >> first) & 1u ? four[first] : Bits{0};
    values[group * 2 + 1] = (nonzero >> second) & 1u ? four[second] : Bits{0};
    const std::uint8_t nibble = static_cast<std::uint8_t>(kept);
    if (group % 2 == 0) {
      mask[group / 2] = static_cast<std::uint8_t>(nibble | (formats::kFirstTwoBitmask << 4));
    } else {
      mask[group / 2] = static_cast<std::uint8_t>((mask[group / 2] & 0xf) | (nibble << 4));
    }
  }
  return -1;
}

template <typename Bits>
void unpack_row(const Bits* values, const std::uint8_t* mask, std::int64_t cols, Bits* dense) {
  for (std::int64_t group = 0; group < cols / 4; ++group) {
    unsigned kept = (mask[group / 2] >> (group % 2 * 4)) & 0xfu;
    for (; kept != 0; kept &= kept - 1) dense[group * 4 + std::countr_zero(kept)] = *values++;
  }
}

[[noreturn]] void fail_row(const at::Tensor& dense, const std::string& name, std::int64_t row,
                           std::int64_t group) {
  const at::Tensor four = dense.select(0, row).slice(0, group * 4, group * 4 + 4).to(at::kFloat).contiguous();
  const float* v = four.const_data_ptr<float>();
  fail(ErrorCode::kCorruptData,
       "{}: row {}, group {} (columns {} to {}) holds {}, {}, {}, {}: 2:4 allows two non-zeros, all finite",
       name, row, group, group * 4, group * 4 + 3, v[0], v[1], v[2], v[3]);
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
  return rows * row_bytes + (quantized() ? static_cast<std::int64_t>(scale.nbytes()) : 0);
}

Weight dense_weight(at::Tensor values, at::Tensor scale) {
  check(values.defined() && values.dim() == 2 && values.is_contiguous() && values.device().is_cpu(),
        ErrorCode::kInvalidArgument, "dense weight: expected a contiguous [rows, cols] CPU tensor");
  const DType dtype = dtype_of(values);
  check(is_weight_dtype(dtype), ErrorCode::kUnsupported,
        "dense weight: expected float32, bfloat16, float16 or float8_e4m3fn, got {}", dtype_name(dtype));
  check(scale.defined() == (dtype == DType::kFloat8E4M3), ErrorCode::kInvalidArgument,
        "dense weight: a scale goes with float8_e4m3fn and with nothing else, got {} {} scale",
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
        "2:4 weight: expected float32, bfloat16, float16 or float8_e4m3fn, got {}", dtype_name(dtype));
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
  with_bits(weight.dtype(), [&](auto zero) {
    using Bits = decltype(zero);
    Bits* to = value_row<Bits>(weight, row);
    const auto* from = static_cast<const Bits*>(values);
    for (std::int64_t i = 0; i < weight.cols / 2; ++i)
      to[i] = (from[i] & kMagnitude<Bits>) == 0 ? zero : from[i];
  });
  return good != 0;
}

Weight two_four_from_dense(const at::Tensor& dense, const std::string& name) {
  check(dense.defined() && dense.dim() == 2 && dense.device().is_cpu(), ErrorCode::kInvalidArgument,
        "{}: expected a [rows, cols] CPU tensor", name);
  const at::Tensor source = dense.contiguous();
  const DType dtype = dtype_of(source);
  Weight weight = empty_two_four(source.size(0), source.size(1), dtype);
  with_bits(dtype, [&](auto zero) {
    using Bits = decltype(zero);
    const Bits* data = static_cast<const Bits*>(source.const_data_ptr());
    parallel_for(weight.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const Bits* dense_row = data + row * weight.cols;
        const std::int64_t group =
            pack_row<Bits>(dense_row, weight.cols, value_row<Bits>(weight, row), mask_row(weight, row));
        if (group >= 0) fail_row(source, name, row, group);
        const std::int64_t bad = first_not_finite(dense_row, dtype, weight.cols);
        if (bad >= 0) fail_row(source, name, row, bad / 4);
      }
    });
  });
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
  std::memset(dense.mutable_data_ptr(), 0, dense.nbytes());
  with_bits(weight.dtype(), [&](auto zero) {
    using Bits = decltype(zero);
    Bits* data = static_cast<Bits*>(dense.mutable_data_ptr());
    parallel_for(weight.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        unpack_row<Bits>(value_row<Bits>(weight, row), mask_row(weight, row), weight.cols,
                         data + row * weight.cols);
      }
    });
  });
  return dense;
}

at::Tensor to_dense_float(const Weight& weight) {
  at::Tensor dense = to_dense_values(weight).to(at::kFloat);
  if (!weight.quantized()) return dense;
  return dense.mul(weight.scale.to(at::kFloat).unsqueeze(1));
}

}  // namespace grille::tensors
