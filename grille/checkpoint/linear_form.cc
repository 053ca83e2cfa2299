// Which tensors a weight has in a file.
#include "grille/base/error.h"
#include "grille/checkpoint/compressed_tensors.h"
#include "grille/formats/marlin_24.h"
#include "grille/tensors/views.h"

namespace grille::checkpoint {
namespace {

using Scheme = QuantizationScheme;

std::int64_t blocks(std::int64_t size, std::int64_t block) {
  return block == 0 ? 1 : (size + block - 1) / block;
}

std::vector<std::int64_t> scale_shape(const LinearForm& form) {
  if (!form.blocks) return {form.rows, 1};
  return {blocks(form.rows, form.block_rows), blocks(form.cols, form.block_cols)};
}

void add_scales(const std::string& module, const LinearForm& form, std::vector<TensorSpec>& specs) {
  if (!form.scale_dtype) return;
  const std::vector<std::int64_t> shape = scale_shape(form);
  specs.push_back({module + ".weight_scale", *form.scale_dtype, shape});
  if (form.zero_point) {
    const bool packed = form.encoding == Encoding::kPacked;
    specs.push_back({module + ".weight_zero_point",
                     packed ? DType::kInt32 : DType::kInt8,
                     {packed ? (shape[0] * form.bits + 31) / 32 : shape[0], shape[1]}});
  }
  if (form.group_index) specs.push_back({module + ".weight_g_idx", DType::kInt32, {form.cols}});
}

}  // namespace

Scheme scheme_of(const LinearForm& form) {
  Scheme scheme;
  scheme.inputs = form.inputs;
  scheme.bits = form.dtype == DType::kInt8 ? form.bits : 8;
  scheme.format = form.dtype != DType::kInt8             ? Scheme::Format::kFloat
                  : form.encoding == Encoding::kPacked   ? Scheme::Format::kPacked
                  : form.encoding == Encoding::kMarlin24 ? Scheme::Format::kMarlin24
                                                         : Scheme::Format::kInt;
  scheme.symmetric = !form.zero_point;
  scheme.activation_order = form.group_index;
  if (form.blocks && form.block_cols != 0) {
    scheme.strategy = form.block_rows == 1 ? Scheme::Strategy::kGroup : Scheme::Strategy::kBlock;
    scheme.block_rows = form.block_rows;
    scheme.block_cols = form.block_cols;
  }
  return scheme;
}

bool fits_marlin_24(const LinearForm& form) {
  return form.two_four() && form.dtype == DType::kInt8 && form.rows % formats::kMarlin24RowMultiple == 0 &&
         form.cols % formats::kMarlin24ColMultiple == 0 && !form.group_index && !form.zero_point &&
         (!form.blocks || (form.block_rows == 1 && form.block_cols == formats::kMarlin24Group));
}

std::vector<TensorSpec> linear_tensors(const std::string& module, const LinearForm& form) {
  const std::int64_t rows = form.rows;
  const std::int64_t cols = form.cols;
  std::vector<TensorSpec> result;
  switch (form.encoding) {
    case Encoding::kPlain: result.push_back({module + ".weight", form.dtype, {rows, cols}}); break;
    case Encoding::kTwoFour:
      result.push_back({module + ".compressed", form.dtype, {rows, cols / 2}});
      result.push_back({module + ".bitmask", DType::kUInt8, {rows, (cols + 7) / 8}});
      result.push_back({module + ".shape", DType::kInt64, {2, 1}});
      break;
    case Encoding::kPacked:
      result.push_back({module + ".weight_packed", DType::kInt32, {rows, (cols * form.bits + 31) / 32}});
      result.push_back({module + ".weight_shape", DType::kInt64, {2}});
      break;
    case Encoding::kMarlin24:
      result.push_back({module + ".weight_packed", DType::kInt32, {cols / 32, rows * form.bits / 2}});
      result.push_back(
          {module + ".scale_packed", DType::kFloat16, {form.blocks ? cols / form.block_cols : 1, rows}});
      result.push_back({module + ".meta", DType::kInt16, {cols / 32, rows * 2}});
      return result;
  }
  add_scales(module, form, result);
  return result;
}

LinearForm form_of(const tensors::Weight& weight, Encoding encoding) {
  LinearForm form;
  form.encoding = encoding;
  form.rows = weight.rows;
  form.cols = weight.cols;
  form.dtype = weight.dtype();
  if (!weight.quantized()) return form;
  form.scale_dtype = encoding == Encoding::kMarlin24 ? DType::kFloat16 : tensors::dtype_of(weight.scale);
  form.bits = weight.bits;
  form.blocks = weight.scale.dim() == 2;
  form.block_rows = weight.block_rows;
  form.block_cols = weight.block_cols;
  form.zero_point = weight.zero_point.defined();
  form.group_index = weight.group_index.defined();
  return form;
}

std::map<std::string, std::array<std::int64_t, 2>> modules_in(const TensorSource& source) {
  std::map<std::string, std::array<std::int64_t, 2>> modules;
  for (const auto& [name, info] : source.tensors()) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) continue;
    const std::string module = name.substr(0, dot);
    const std::string suffix = name.substr(dot);
    if (suffix == ".weight" && info.shape.size() == 2) modules[module] = {info.shape[0], info.shape[1]};
    if (suffix == ".meta" && info.shape.size() == 2)
      modules[module] = {info.shape[1] / 2, info.shape[0] * 32};
    const bool stated = suffix == ".shape" || suffix == ".weight_shape";
    if (!stated || info.bytes / static_cast<std::int64_t>(dtype_size(info.dtype)) != 2) continue;
    std::array<std::int64_t, 2> shape{};
    if (info.dtype == DType::kInt64) {
      source.read(name, std::as_writable_bytes(std::span(shape)));
    } else if (info.dtype == DType::kInt32) {
      std::array<std::int32_t, 2> narrow{};
      source.read(name, std::as_writable_bytes(std::span(narrow)));
      shape = {narrow[0], narrow[1]};
    }
    constexpr std::int64_t kMost = 1 << 24;
    check(shape[0] > 0 && shape[1] > 0 && shape[0] < kMost && shape[1] < kMost, ErrorCode::kCorruptData,
          "{}: [{}, {}] is not the shape of a weight", source.locate(name), shape[0], shape[1]);
    modules[module] = shape;
  }
  return modules;
}

LinearForm stored_form(const TensorSource& source, const CompressionConfig& config, const std::string& module,
                       std::int64_t rows, std::int64_t cols, const std::string& class_name) {
  LinearForm form;
  form.rows = rows;
  form.cols = cols;
  const auto has = [&](const char* suffix) { return source.has(module + suffix); };
  form.encoding = has(".meta")                                 ? Encoding::kMarlin24
                  : has(".weight_packed")                      ? Encoding::kPacked
                  : has(".compressed") && !has(".row_offsets") ? Encoding::kTwoFour
                                                               : Encoding::kPlain;
  const bool integers = form.encoding == Encoding::kMarlin24 || form.encoding == Encoding::kPacked;
  form.dtype =
      integers ? DType::kInt8 : source.info(module + (has(".compressed") ? ".compressed" : ".weight")).dtype;
  const QuantizedGroup* group = config.group_of(module, class_name);
  if (group == nullptr) return form;
  const char* scale = has(".scale_packed") ? ".scale_packed" : ".weight_scale";
  if (has(scale)) form.scale_dtype = source.info(module + scale).dtype;
  form.bits = group->scheme.bits;
  form.inputs = group->scheme.inputs;
  form.block_rows = group->scheme.block_rows;
  form.block_cols = group->scheme.block_cols;
  form.zero_point = !group->scheme.symmetric;
  form.blocks = form.block_cols != 0 || form.zero_point;
  form.group_index = has(".weight_g_idx") && group->scheme.strategy == Scheme::Strategy::kGroup;
  return form;
}

}  // namespace grille::checkpoint
