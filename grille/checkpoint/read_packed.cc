// pack-quantized: integers of 4 or 8 bits in int32 words, the first in the lowest bits, 2^(bits - 1) added.
// Values are packed along their row, zero points along their column.
#include <algorithm>
#include <cstring>

#include <ATen/ops/empty.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/checkpoint/linear_reader.h"

namespace grille::checkpoint {
namespace {

using tensors::Weight;

constexpr std::int64_t kScratchBytes = 1 << 20;
constexpr std::int64_t kRowGrain = 16;

std::int8_t unpacked(const std::uint32_t* words, std::int64_t index, int bits) {
  const int in_word = 32 / bits;
  const unsigned value = (words[index / in_word] >> (index % in_word * bits)) & ((1u << bits) - 1);
  return static_cast<std::int8_t>(static_cast<int>(value) - (1 << (bits - 1)));
}

std::int64_t words_for(std::int64_t count, int bits) { return (count * bits + 31) / 32; }

}  // namespace

Weight LinearReader::packed(int bits) const {
  check_shape_tensor(".weight_shape");
  const std::string name = module_ + ".weight_packed";
  const std::int64_t words = words_for(cols_, bits);
  const TensorInfo& info = expect(name, {rows_, words});
  check_is(name, info, DType::kInt32);
  Weight weight{tensors::WeightFormat::kDense, rows_, cols_, at::empty({rows_, cols_}, at::kChar), {}, {}};
  auto* out = weight.values.mutable_data_ptr<std::int8_t>();
  const std::int64_t block = std::clamp<std::int64_t>(kScratchBytes / std::max<std::int64_t>(words * 4, 1), 1,
                                                      std::max<std::int64_t>(rows_, 1));
  std::vector<std::uint32_t> scratch(static_cast<std::size_t>(block * words));
  for (std::int64_t first = 0; first < rows_; first += block) {
    const std::int64_t count = std::min(block, rows_ - first);
    source_.read_rows(
        name, first, first + count,
        std::as_writable_bytes(std::span(scratch).first(static_cast<std::size_t>(count * words))));
    parallel_for(count, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        std::int8_t* row = out + (first + i) * cols_;
        for (std::int64_t col = 0; col < cols_; ++col)
          row[col] = unpacked(scratch.data() + i * words, col, bits);
      }
    });
  }
  return weight;
}

at::Tensor LinearReader::read_zero_point(const QuantizationScheme& scheme, const at::Tensor& scale) const {
  const std::string name = module_ + ".weight_zero_point";
  const std::int64_t rows = scale.size(0);
  const std::int64_t groups = scale.size(1);
  if (scheme.format != QuantizationScheme::Format::kPacked) {
    const bool one = scheme.strategy == QuantizationScheme::Strategy::kTensor;
    const TensorInfo& info = source_.info(name);
    const std::int64_t count = one ? 1 : rows * groups;
    check_is(name, info, DType::kInt8);
    if (info.bytes != count) {
      fail(ErrorCode::kCorruptData, "{}: {} does not hold {} zero points, one for each scale",
           source_.locate(name), shape_text(info.shape), count);
    }
    const at::Tensor points = source_.read_tensor(name);
    return one ? points.reshape({1, 1}).expand({rows, 1}).contiguous() : points.reshape({rows, groups});
  }
  const std::int64_t words = words_for(rows, scheme.bits);
  check_is(name, expect(name, {words, groups}), DType::kInt32);
  const at::Tensor packed = source_.read_tensor(name).t().contiguous();  // [groups, words]
  const auto* data = reinterpret_cast<const std::uint32_t*>(packed.const_data_ptr<std::int32_t>());
  at::Tensor points = at::empty({rows, groups}, at::kChar);
  auto* out = points.mutable_data_ptr<std::int8_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t group = 0; group < groups; ++group)
      out[row * groups + group] = unpacked(data + group * words, row, scheme.bits);
  }
  return points;
}

// Undefined where columns belong to groups in their own order. A -1 says so too: the writer never set an
// order.
at::Tensor LinearReader::read_group_index(const QuantizationScheme& scheme) const {
  const std::string name = module_ + ".weight_g_idx";
  if (!source_.has(name)) {
    check(!scheme.activation_order, ErrorCode::kNotFound,
          "{} is missing: config.json gives the columns an order of their own (actorder)",
          source_.locate(name));
    return {};
  }
  check_is(name, expect(name, {cols_}), DType::kInt32);
  const at::Tensor index = source_.read_tensor(name);
  const auto* data = index.const_data_ptr<std::int32_t>();
  if (std::find(data, data + cols_, -1) != data + cols_) return {};
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(cols_ / scheme.block_cols));
  bool in_order = true;
  for (std::int64_t col = 0; col < cols_; ++col) {
    const std::int32_t group = data[col];
    if (group < 0 || group >= static_cast<std::int64_t>(sizes.size())) {
      fail(ErrorCode::kCorruptData, "{}: column {} is in group {}, but there are {}", source_.locate(name),
           col, group, sizes.size());
    }
    ++sizes[static_cast<std::size_t>(group)];
    in_order = in_order && group == col / scheme.block_cols;
  }
  for (std::size_t group = 0; group < sizes.size(); ++group) {
    if (sizes[group] == scheme.block_cols) continue;
    fail(ErrorCode::kCorruptData, "{}: group {} has {} columns, not {}", source_.locate(name), group,
         sizes[group], scheme.block_cols);
  }
  return in_order ? at::Tensor() : index;
}

}  // namespace grille::checkpoint
