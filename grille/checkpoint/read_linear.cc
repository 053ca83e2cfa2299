// Which of a module's tensors hold its weight, and whether config.json agrees.
#include <algorithm>
#include <array>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/checkpoint/compressed_tensors.h"
#include "grille/checkpoint/linear_reader.h"
#include "grille/checkpoint/quote_name.h"
#include "grille/tensors/views.h"

namespace grille::checkpoint {
namespace {

using tensors::Weight;
using Format = QuantizationScheme::Format;

constexpr std::int64_t kRowGrain = 16;

constexpr std::array<std::string_view, 12> kSuffixes = {
    ".weight",       ".weight_scale",  ".weight_zero_point",
    ".weight_g_idx", ".weight_packed", ".weight_shape",
    ".scale_packed", ".meta",          ".compressed",
    ".bitmask",      ".shape",         ".row_offsets"};
// The tensors that can hold the values: a module has one of them.
constexpr std::array<const char*, 3> kValues = {".weight", ".compressed", ".weight_packed"};

// The suffix of the tensor that holds the module's values.
const char* value_suffix(const LinearReader& reader) {
  const char* found = nullptr;
  for (const char* suffix : kValues) {
    if (!reader.has(suffix)) continue;
    check(found == nullptr, ErrorCode::kCorruptData, "{}: the module has both this and {}",
          reader.source().locate(reader.name(suffix)),
          quote_name(reader.name(found == nullptr ? "" : found)));
    found = suffix;
  }
  check(found != nullptr, ErrorCode::kNotFound, "{} is missing, and so are {} and {}",
        reader.source().locate(reader.name(".weight")), quote_name(reader.name(".compressed")),
        quote_name(reader.name(".weight_packed")));
  return found;
}

[[noreturn]] void fail_config(const LinearReader& reader, const char* suffix, const std::string& is,
                              const std::string& stated) {
  fail(ErrorCode::kCorruptData, "{}: the weight is {}, but config.json says that it is {}",
       reader.source().locate(reader.name(suffix)), is, stated);
}

std::string stated_format(const QuantizedGroup* group) {
  return group == nullptr ? "not quantized" : std::string(format_name(group->scheme.format));
}

Weight read_packed(const LinearReader& reader, const QuantizedGroup* group) {
  const bool marlin = reader.has(".meta") || reader.has(".scale_packed");
  const Format expected = marlin ? Format::kMarlin24 : Format::kPacked;
  if (group == nullptr || group->scheme.format != expected) {
    fail_config(reader, ".weight_packed", std::string(format_name(expected)), stated_format(group));
  }
  if (marlin) return reader.marlin_24(group->scheme);
  Weight weight = reader.packed(group->scheme.bits);
  reader.read_scales(weight, group->scheme);
  return weight;
}

Weight read_values(const LinearReader& reader, const CompressionConfig& config, const std::string& module,
                   const std::string& class_name, const char* suffix) {
  if (suffix == kValues[0]) return reader.dense();
  const bool rows_vary = reader.has(".row_offsets");
  const std::optional<SparseGroup>& group = rows_vary ? config.bitmask : config.two_four;
  if (!group || !group->matches(module, class_name)) {
    fail_config(reader, suffix, rows_vary ? "sparse-bitmask" : "2:4 (sparse-24-bitmask)", "not");
  }
  return rows_vary ? reader.bitmask() : reader.two_four();
}

// float8 values are float-quantized, int8 ones int-quantized, and others not quantized.
void check_numbers(const LinearReader& reader, const char* suffix, const Weight& weight,
                   const QuantizedGroup* group) {
  const DType dtype = weight.dtype();
  const bool is_float8 = dtype == DType::kFloat8E4M3;
  const bool is_int8 = dtype == DType::kInt8;
  const bool agrees = group == nullptr ? !is_float8 && !is_int8
                                       : (is_float8 && group->scheme.format == Format::kFloat) ||
                                             (is_int8 && group->scheme.format == Format::kInt);
  if (!agrees) fail_config(reader, suffix, std::string(dtype_name(dtype)), stated_format(group));
  if (!is_int8 || group->scheme.bits == 8) return;
  const at::Tensor smallest = weight.values.min();
  const at::Tensor largest = weight.values.max();
  const int bound = 1 << (group->scheme.bits - 1);
  if (smallest.item<int>() >= -bound && largest.item<int>() < bound) return;
  fail(ErrorCode::kCorruptData, "{}: values from {} to {} are not integers of {} bits",
       reader.source().locate(reader.name(suffix)), smallest.item<int>(), largest.item<int>(),
       group->scheme.bits);
}

}  // namespace

Weight LinearReader::dense() const {
  const std::string name = module_ + ".weight";
  const TensorInfo& info = expect(name, {rows_, cols_});
  check_value_dtype(name, info.dtype);
  at::Tensor values = source_.read_tensor(name);
  const auto* data = static_cast<const std::byte*>(values.const_data_ptr());
  parallel_for(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      check_finite(name, row, data + row * info.row_bytes(), info.dtype, cols_);
    }
  });
  return {tensors::WeightFormat::kDense, rows_, cols_, std::move(values), {}, {}};
}

Weight read_linear(const TensorSource& source, const CompressionConfig& config, const std::string& module,
                   std::int64_t rows, std::int64_t cols, const std::string& class_name) {
  const LinearReader reader(source, module, rows, cols);
  const char* suffix = value_suffix(reader);
  const QuantizedGroup* group = config.group_of(module, class_name);
  if (suffix == kValues[2]) return read_packed(reader, group);
  Weight weight = read_values(reader, config, module, class_name, suffix);
  check_numbers(reader, suffix, weight, group);
  if (group != nullptr) reader.read_scales(weight, group->scheme);
  return weight;
}

std::span<const std::string_view> linear_suffixes() { return kSuffixes; }

std::vector<std::string> linear_tensor_names(const TensorSource& source, const std::string& module) {
  std::vector<std::string> names;
  for (const std::string_view suffix : kSuffixes) {
    std::string name = module + std::string(suffix);
    if (source.has(name)) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace grille::checkpoint
