#include "grille/models/dummy_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string_view>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/checkpoint/compressed_tensors.h"
#include "grille/models/decoder.h"

namespace grille::models {
namespace {

constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kGrain = 1 << 16;
constexpr std::uint8_t kMasks[] = {0b0011, 0b0101, 0b1001, 0b0110, 0b1010, 0b1100};

// The i-th number of a stream: splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
std::uint64_t random_bits(std::uint64_t stream, std::uint64_t i) {
  std::uint64_t z = stream + (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Calls make(i) for elements [first, first + count) and stores them at `out`.
template <typename T, typename Make>
void fill(std::span<std::byte> out, std::int64_t first, Make&& make) {
  parallel_for(static_cast<std::int64_t>(out.size() / sizeof(T)), kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const T value = make(static_cast<std::uint64_t>(first + i));
                   std::memcpy(out.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
                 }
               });
}

template <typename Make>
void fill_floats(DType dtype, std::span<std::byte> out, std::int64_t first, Make&& make) {
  switch (dtype) {
    case DType::kFloat32: return fill<float>(out, first, make);
    case DType::kBFloat16: return fill<c10::BFloat16>(out, first, make);
    default: return fill<c10::Half>(out, first, make);
  }
}

}  // namespace

DummyTensors::DummyTensors(const DecoderConfig& config, const checkpoint::CompressionConfig& compression,
                           std::uint64_t seed)
    : seed_(seed) {
  check(config.num_layers <= kMostLayers, ErrorCode::kCorruptData,
        "config.json: num_hidden_layers {}: expected at most {}", config.num_layers, kMostLayers);
  add_linear("model.embed_tokens", config.vocab_size, config.hidden_size, config.dtype, compression,
             "Embedding");
  if (!config.tie_word_embeddings) {
    add_linear("lm_head", config.vocab_size, config.hidden_size, config.dtype, compression);
  }
  add("model.norm.weight", config.dtype, {config.hidden_size});
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    add(prefix + "input_layernorm.weight", config.dtype, {config.hidden_size});
    add(prefix + "post_attention_layernorm.weight", config.dtype, {config.hidden_size});
    if (config.query_key_norm) {
      add(prefix + "self_attn.q_norm.weight", config.dtype, {config.head_dim});
      add(prefix + "self_attn.k_norm.weight", config.dtype, {config.head_dim});
    }
    for (const Slot slot : kSlots) {
      const auto [rows, cols] = slot_shape(config, slot);
      const std::string module = module_name(layer, slot);
      add_linear(module, rows, cols, config.dtype, compression);
      if (slot_has_bias(config, slot)) add(module + ".bias", config.dtype, {rows});
    }
  }
}

void DummyTensors::add(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
  auto info = checkpoint::make_tensor_info(dtype, std::move(shape));
  check(info.has_value(), ErrorCode::kCorruptData, "config.json: tensor '{}' would be too large", name);
  tensors_[name] = std::move(*info);
}

void DummyTensors::add_linear(const std::string& module, std::int64_t rows, std::int64_t cols, DType dtype,
                              const checkpoint::CompressionConfig& compression,
                              const std::string& class_name) {
  using Scheme = checkpoint::QuantizationScheme;
  const checkpoint::QuantizedGroup* group = compression.group_of(module, class_name);
  checkpoint::LinearForm form;
  if (compression.is_two_four(module, class_name)) form.encoding = checkpoint::Encoding::kTwoFour;
  form.rows = rows;
  form.cols = cols;
  form.dtype = dtype;
  bool one_scale = false;
  if (group != nullptr) {
    const Scheme& scheme = group->scheme;
    one_scale = scheme.strategy == Scheme::Strategy::kTensor;
    check(
        scheme.format == Scheme::Format::kFloat && scheme.symmetric &&
            (one_scale || scheme.strategy == Scheme::Strategy::kChannel),
        ErrorCode::kUnsupported,
        "config.json: random weights are not quantized or float8 with a scale for each row or tensor; {} is "
        "{} with other scales or numbers",
        module, checkpoint::format_name(scheme.format));
    form.dtype = DType::kFloat8E4M3;
    form.scale_dtype = dtype;
  }
  for (checkpoint::TensorSpec& spec : checkpoint::linear_tensors(module, form)) {
    const bool scale = spec.name.ends_with(".weight_scale");
    add(spec.name, spec.dtype, scale && one_scale ? std::vector<std::int64_t>{1} : std::move(spec.shape));
  }
  cols_[module] = cols;
  rows_[module] = rows;
}

void DummyTensors::read_rows(const std::string& name, std::int64_t begin, std::int64_t end,
                             std::span<std::byte> out) const {
  const checkpoint::TensorInfo& info = check_read(name, begin, end, out.size());
  const std::string_view suffix = std::string_view(name).substr(name.rfind('.') + 1);
  const std::string module = name.substr(0, name.rfind('.'));
  const std::int64_t first =
      begin * info.row_bytes() / static_cast<std::int64_t>(dtype_size(info.dtype));  // element
  const std::uint64_t stream = random_bits(seed_, std::hash<std::string>{}(name));
  if (!cols_.contains(module) || suffix == "bias") {  // a norm's weight, or a bias
    const float value = suffix == "bias" ? 0.0f : 1.0f;
    return fill_floats(info.dtype, out, first, [&](std::uint64_t) { return value; });
  }
  const auto cols = static_cast<std::uint64_t>(cols_.at(module));
  const float width = std::sqrt(3.0f / static_cast<float>(cols));  // of a uniform distribution's half
  if (suffix == "shape") {
    const std::int64_t shape[2] = {rows_.at(module), cols_.at(module)};
    fill<std::int64_t>(out, first, [&](std::uint64_t i) { return shape[i]; });
  } else if (suffix == "bitmask") {
    const std::uint64_t row_bytes = (cols + 7) / 8;
    fill<std::uint8_t>(out, first, [&](std::uint64_t i) {
      const std::uint64_t bits = random_bits(stream, i);
      const unsigned low = kMasks[bits % 6];
      const bool half = cols % 8 == 4 && i % row_bytes == row_bytes - 1;
      return static_cast<std::uint8_t>(half ? low : low | unsigned{kMasks[(bits >> 32) % 6]} << 4);
    });
  } else if (suffix == "weight_scale") {
    fill_floats(info.dtype, out, first, [&](std::uint64_t) { return width; });
  } else if (info.dtype == DType::kFloat8E4M3) {
    fill<std::uint8_t>(out, first, [&](std::uint64_t i) {
      return static_cast<std::uint8_t>(random_bits(stream, i) & 0xbf);  // exponents up to 2^0
    });
  } else {
    fill_floats(info.dtype, out, first, [&](std::uint64_t i) {
      const auto uniform = static_cast<float>(random_bits(stream, i) >> 40) * 0x1.0p-23f - 1.0f;  // [-1, 1)
      return uniform * width;
    });
  }
}

}  // namespace grille::models
