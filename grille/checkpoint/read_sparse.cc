// sparse-24-bitmask and sparse-bitmask: values, and a bit for each column.
#include <algorithm>
#include <bit>
#include <cstring>

#include <ATen/ops/empty.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/checkpoint/linear_reader.h"
#include "grille/tensors/views.h"

namespace grille::checkpoint {
namespace {

using tensors::Weight;

constexpr std::int64_t kScratchBytes = 1 << 20;
constexpr std::int64_t kRowGrain = 16;

// Columns that a row of `cols` columns keeps; bits past the last one do not count.
std::int64_t kept_in_row(const std::uint8_t* mask, std::int64_t cols) {
  std::int64_t kept = 0;
  for (std::int64_t byte = 0; byte < cols / 8; ++byte) kept += std::popcount(mask[byte]);
  if (cols % 8 != 0) kept += std::popcount(static_cast<std::uint8_t>(mask[cols / 8] << (8 - cols % 8)));
  return kept;
}

// One row of values to the columns that the mask keeps; the rest is 0.
void spread_row(const std::byte* values, const std::uint8_t* mask, std::int64_t cols, std::int64_t element,
                std::byte* out) {
  std::memset(out, 0, static_cast<std::size_t>(cols * element));
  for (std::int64_t col = 0; col < cols; ++col) {
    if (((mask[col / 8] >> (col % 8)) & 1) == 0) continue;
    std::memcpy(out + col * element, values, static_cast<std::size_t>(element));
    values += element;
  }
}

}  // namespace

void LinearReader::fail_mask(const std::string& name, std::int64_t row, const std::uint8_t* mask) const {
  const std::int64_t group = tensors::first_bad_group(mask, cols_);
  const int kept = std::popcount(static_cast<unsigned>((mask[group / 2] >> (group % 2 * 4)) & 0xf));
  fail(ErrorCode::kCorruptData, "{}: row {}, group {} (columns {} to {}) keeps {} columns: 2:4 keeps two",
       source_.locate(name), row, group, group * 4, group * 4 + 3, kept);
}

void LinearReader::check_mask_tail(const std::string& name, std::int64_t row,
                                   const std::uint8_t* mask) const {
  if (cols_ % 8 == 0) return;
  const int kept = std::popcount(static_cast<unsigned>(mask[cols_ / 8] >> (cols_ % 8)));
  if (kept == 0) return;
  fail(ErrorCode::kCorruptData, "{}: row {} keeps {} columns past its last one, {}", source_.locate(name),
       row, kept, cols_ - 1);
}

Weight LinearReader::two_four() const {
  if (cols_ % 4 != 0) {
    fail(ErrorCode::kCorruptData, "{}: 2:4 needs a number of columns that is a multiple of 4, not {}",
         source_.locate(module_ + ".compressed"), cols_);
  }
  check_shape_tensor(".shape");
  const std::string values_name = module_ + ".compressed";
  const std::string mask_name = module_ + ".bitmask";
  const TensorInfo& values = expect(values_name, {rows_, cols_ / 2});
  const TensorInfo& mask = expect(mask_name, {rows_, (cols_ + 7) / 8});
  check_value_dtype(values_name, values.dtype);
  check_is(mask_name, mask, DType::kUInt8);

  Weight weight = tensors::empty_two_four(rows_, cols_, values.dtype);
  const std::int64_t row_bytes = values.row_bytes() + mask.row_bytes();
  const std::int64_t block = std::clamp<std::int64_t>(kScratchBytes / std::max<std::int64_t>(row_bytes, 1), 1,
                                                      std::max<std::int64_t>(rows_, 1));
  std::vector<std::byte> value_rows(static_cast<std::size_t>(block * values.row_bytes()));
  std::vector<std::byte> mask_rows(static_cast<std::size_t>(block * mask.row_bytes()));
  for (std::int64_t first = 0; first < rows_; first += block) {
    const std::int64_t count = std::min(block, rows_ - first);
    source_.read_rows(values_name, first, first + count,
                      std::span(value_rows).first(static_cast<std::size_t>(count * values.row_bytes())));
    source_.read_rows(mask_name, first, first + count,
                      std::span(mask_rows).first(static_cast<std::size_t>(count * mask.row_bytes())));
    parallel_for(count, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::byte* value_row = value_rows.data() + i * values.row_bytes();
        const auto* mask_row = reinterpret_cast<const std::uint8_t*>(mask_rows.data() + i * mask.row_bytes());
        check_finite(values_name, first + i, value_row, values.dtype, cols_ / 2);
        if (!tensors::set_two_four_row(weight, first + i, value_row, mask_row)) {
          fail_mask(mask_name, first + i, mask_row);
        }
        check_mask_tail(mask_name, first + i, mask_row);
      }
    });
  }
  return weight;
}

Weight LinearReader::bitmask() const {
  check_shape_tensor(".shape");
  const std::string values_name = module_ + ".compressed";
  const std::string mask_name = module_ + ".bitmask";
  const std::string offsets_name = module_ + ".row_offsets";
  const TensorInfo& values = source_.info(values_name);
  const TensorInfo& mask = expect(mask_name, {rows_, (cols_ + 7) / 8});
  check_value_dtype(values_name, values.dtype);
  check_is(mask_name, mask, DType::kUInt8);
  check_is(offsets_name, expect(offsets_name, {rows_}), DType::kInt64);
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(rows_));
  source_.read(offsets_name, std::as_writable_bytes(std::span(offsets)));
  std::vector<std::uint8_t> bits(static_cast<std::size_t>(mask.bytes));
  source_.read(mask_name, std::as_writable_bytes(std::span(bits)));

  std::int64_t stored = 0;
  for (std::int64_t row = 0; row < rows_; ++row) {
    const std::uint8_t* mask_row = bits.data() + row * mask.row_bytes();
    check_mask_tail(mask_name, row, mask_row);
    if (offsets[static_cast<std::size_t>(row)] != stored) {
      fail(ErrorCode::kCorruptData, "{}: row {} begins at value {}, but the rows before it keep {}",
           source_.locate(offsets_name), row, offsets[static_cast<std::size_t>(row)], stored);
    }
    stored += kept_in_row(mask_row, cols_);
  }
  expect(values_name, {stored});

  Weight weight{tensors::WeightFormat::kDense,
                rows_,
                cols_,
                at::empty({rows_, cols_}, tensors::torch_dtype(values.dtype)),
                {},
                {}};
  auto* out = static_cast<std::byte*>(weight.values.mutable_data_ptr());
  const auto element = static_cast<std::int64_t>(dtype_size(values.dtype));
  parallel_for(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::byte> row_values;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t first = offsets[static_cast<std::size_t>(row)];
      const std::int64_t last = row + 1 < rows_ ? offsets[static_cast<std::size_t>(row) + 1] : stored;
      row_values.resize(static_cast<std::size_t>((last - first) * element));
      source_.read_rows(values_name, first, last, row_values);
      check_finite(values_name, row, row_values.data(), values.dtype, last - first);
      spread_row(row_values.data(), bits.data() + row * mask.row_bytes(), cols_, element,
                 out + row * cols_ * element);
    }
  });
  return weight;
}

}  // namespace grille::checkpoint
