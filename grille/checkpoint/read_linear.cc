#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include <ATen/ops/empty.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/checkpoint/compressed_tensors.h"
#include "grille/checkpoint/quote_name.h"
#include "grille/tensors/finite.h"
#include "grille/tensors/views.h"

namespace grille::checkpoint {
namespace {

using tensors::Weight;

constexpr std::int64_t kScratchBytes = 1 << 20;
constexpr std::int64_t kRowGrain = 16;

constexpr const char* kSuffixes[] = {".weight",     ".weight_scale", ".weight_zero_point",
                                     ".compressed", ".bitmask",      ".shape"};

// One module's tensors in a source.
class LinearReader {
 public:
  LinearReader(const TensorSource& source, const std::string& module, std::int64_t rows, std::int64_t cols)
      : source_(source), module_(module), rows_(rows), cols_(cols) {}

  bool has(const char* suffix) const { return source_.has(module_ + suffix); }

  Weight dense() const {
    const std::string name = module_ + ".weight";
    const TensorInfo& info = expect(name, {rows_, cols_});
    check_dtype(name, info.dtype);
    at::Tensor values = source_.read_tensor(name);
    const auto* data = static_cast<const std::byte*>(values.const_data_ptr());
    parallel_for(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        check_finite(name, row, data + row * info.row_bytes(), info.dtype, cols_);
      }
    });
    return {tensors::WeightFormat::kDense, rows_, cols_, std::move(values), {}, {}};
  }

  Weight two_four() const {
    if (cols_ % 4 != 0) {
      fail(ErrorCode::kCorruptData, "{}: 2:4 needs a number of columns that is a multiple of 4, not {}",
           source_.locate(module_ + ".compressed"), cols_);
    }
    check_shape_tensor();
    const std::string values_name = module_ + ".compressed";
    const std::string mask_name = module_ + ".bitmask";
    const TensorInfo& values = expect(values_name, {rows_, cols_ / 2});
    const TensorInfo& mask = expect(mask_name, {rows_, (cols_ + 7) / 8});
    check_dtype(values_name, values.dtype);
    check_is(mask_name, mask, DType::kUInt8);

    Weight weight = tensors::empty_two_four(rows_, cols_, values.dtype);
    const std::int64_t row_bytes = values.row_bytes() + mask.row_bytes();
    const std::int64_t block = std::clamp<std::int64_t>(kScratchBytes / std::max<std::int64_t>(row_bytes, 1),
                                                        1, std::max<std::int64_t>(rows_, 1));
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
          const auto* mask_row =
              reinterpret_cast<const std::uint8_t*>(mask_rows.data() + i * mask.row_bytes());
          check_finite(values_name, first + i, value_row, values.dtype, cols_ / 2);
          const bool tail_clear = cols_ % 8 == 0 || mask_row[cols_ / 8] >> 4 == 0;
          if (!tensors::set_two_four_row(weight, first + i, value_row, mask_row) || !tail_clear) {
            fail_mask(mask_name, first + i, mask_row);
          }
        }
      });
    }
    return weight;
  }

  // [rows], in the dtype that is stored.
  at::Tensor scale(Fp8Group::Scale kind) const {
    const std::string name = module_ + ".weight_scale";
    const TensorInfo& info = source_.info(name);
    const std::int64_t count =
        std::max<std::int64_t>(info.bytes, 0) / static_cast<std::int64_t>(dtype_size(info.dtype));
    const bool per_row = kind == Fp8Group::Scale::kChannel;
    const bool fits = count == (per_row ? rows_ : 1) && info.shape.size() <= 2 &&
                      (info.shape.size() < 2 || info.shape[1] == 1) && (!per_row || !info.shape.empty());
    if (!fits) {
      fail(ErrorCode::kCorruptData, "{}: {} does not hold {} for {} rows", source_.locate(name),
           shape_text(info.shape), per_row ? "a scale a row" : "one scale", rows_);
    }
    check(info.dtype == DType::kFloat32 || info.dtype == DType::kBFloat16 || info.dtype == DType::kFloat16,
          ErrorCode::kUnsupported, "{}: scales in {} are not supported", source_.locate(name),
          dtype_name(info.dtype));
    const at::Tensor scale = source_.read_tensor(name).reshape({count});
    const at::Tensor as_float = scale.to(at::kFloat);
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = as_float.const_data_ptr<float>()[i];
      if (value > 0 && value <= std::numeric_limits<float>::max()) continue;
      fail(ErrorCode::kCorruptData, "{}: the scale of row {} is {}, not a positive number",
           source_.locate(name), i, value);
    }
    check_zero_point();
    return per_row ? scale : scale.expand({rows_}).contiguous();
  }

  [[noreturn]] void fail_weight(const std::string& what) const {
    fail(ErrorCode::kCorruptData, "{}: {}",
         source_.locate(module_ + (has(".compressed") ? ".compressed" : ".weight")), what);
  }

 private:
  const TensorInfo& expect(const std::string& name, const std::vector<std::int64_t>& shape) const {
    const TensorInfo& info = source_.info(name);
    if (info.shape != shape) {
      fail(ErrorCode::kCorruptData, "{}: expected {}, got {}", source_.locate(name), shape_text(shape),
           shape_text(info.shape));
    }
    return info;
  }

  void check_dtype(const std::string& name, DType dtype) const {
    if (dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16 ||
        dtype == DType::kFloat8E4M3) {
      return;
    }
    fail(ErrorCode::kUnsupported, "{}: weights in {} are not supported", source_.locate(name),
         dtype_name(dtype));
  }

  void check_is(const std::string& name, const TensorInfo& info, DType dtype) const {
    if (info.dtype == dtype) return;
    fail(ErrorCode::kCorruptData, "{}: expected {}, got {}", source_.locate(name), dtype_name(dtype),
         dtype_name(info.dtype));
  }

  void check_finite(const std::string& name, std::int64_t row, const std::byte* data, DType dtype,
                    std::int64_t count) const {
    const std::int64_t bad = tensors::first_not_finite(data, dtype, count);
    if (bad < 0) return;
    fail(ErrorCode::kCorruptData, "{}: row {}, value {} is NaN or infinite", source_.locate(name), row, bad);
  }

  [[noreturn]] void fail_mask(const std::string& name, std::int64_t row, const std::uint8_t* mask) const {
    const std::int64_t bad = tensors::first_bad_group(mask, cols_);
    const std::int64_t group = bad >= 0 ? bad : cols_ / 4;
    const int kept = std::popcount(static_cast<unsigned>((mask[group / 2] >> (group % 2 * 4)) & 0xf));
    if (bad < 0) {
      fail(ErrorCode::kCorruptData, "{}: row {} keeps {} columns past its last one, {}", source_.locate(name),
           row, kept, cols_ - 1);
    }
    fail(ErrorCode::kCorruptData, "{}: row {}, group {} (columns {} to {}) keeps {} columns: 2:4 keeps two",
         source_.locate(name), row, group, group * 4, group * 4 + 3, kept);
  }

  // `.shape` holds the dense shape, [2] or [2, 1].
  void check_shape_tensor() const {
    const std::string name = module_ + ".shape";
    const TensorInfo& info = source_.info(name);
    const bool two =
        info.shape == std::vector<std::int64_t>{2} || info.shape == std::vector<std::int64_t>{2, 1};
    if (!two)
      fail(ErrorCode::kCorruptData, "{}: expected [2] or [2, 1], got {}", source_.locate(name),
           shape_text(info.shape));
    check_is(name, info, DType::kInt64);
    std::int64_t shape[2];
    source_.read(name, std::as_writable_bytes(std::span(shape)));
    if (shape[0] != rows_ || shape[1] != cols_) {
      fail(ErrorCode::kCorruptData, "{}: expected a weight of [{}, {}], got [{}, {}]", source_.locate(name),
           rows_, cols_, shape[0], shape[1]);
    }
  }

  // Older writers store the zero points of symmetric schemes: zeros, which are skipped.
  void check_zero_point() const {
    const std::string name = module_ + ".weight_zero_point";
    if (!source_.has(name)) return;
    const TensorInfo& info = source_.info(name);
    const bool small = info.bytes <= std::max<std::int64_t>(rows_, 1) * 8;
    std::vector<std::byte> bytes(small ? static_cast<std::size_t>(info.bytes) : 0);
    if (small) source_.read(name, bytes);
    const bool zero =
        small && std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
    if (!zero)
      fail(ErrorCode::kUnsupported, "{}: zero points other than 0 are not supported", source_.locate(name));
  }

  const TensorSource& source_;
  const std::string& module_;
  std::int64_t rows_;
  std::int64_t cols_;
};

}  // namespace

Weight read_linear(const TensorSource& source, const CompressionConfig& config, const std::string& module,
                   std::int64_t rows, std::int64_t cols, const std::string& class_name) {
  const LinearReader reader(source, module, rows, cols);
  const bool compressed = reader.has(".compressed");
  if (!compressed && !reader.has(".weight")) {
    fail(ErrorCode::kNotFound, "{} is missing, and so is {}", source.locate(module + ".weight"),
         quote_name(module + ".compressed"));
  }
  if (compressed && reader.has(".weight"))
    reader.fail_weight("the module has both a compressed and a plain weight");
  if (compressed && !config.is_two_four(module, class_name)) {
    reader.fail_weight("the weight is 2:4, but config.json does not say so");
  }
  Weight weight = compressed ? reader.two_four() : reader.dense();

  const bool fp8 = weight.dtype() == DType::kFloat8E4M3;
  const Fp8Group* group = config.fp8_group(module, class_name);
  if (fp8 != (group != nullptr)) {
    reader.fail_weight(fmt::format("the weight is {}, but config.json says that it is {}",
                                   dtype_name(weight.dtype()), fp8 ? "not quantized" : "float8"));
  }
  if (fp8) weight.scale = reader.scale(group->scale);
  return weight;
}

std::vector<std::string> linear_tensor_names(const TensorSource& source, const std::string& module) {
  std::vector<std::string> names;
  for (const char* suffix : kSuffixes) {
    if (source.has(module + suffix)) names.push_back(module + suffix);
  }
  return names;
}

}  // namespace grille::checkpoint
