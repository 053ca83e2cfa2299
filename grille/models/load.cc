#include "grille/models/load.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <ATen/ops/empty.h>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/models/cuda_placement.h"
#include "grille/tensors/finite.h"
#include "grille/tensors/views.h"
#include "grille/tensors/weight_memory.h"

namespace grille::models {
namespace {

constexpr const char* kEmbedding = "model.embed_tokens";
constexpr const char* kHead = "lm_head";

at::ScalarType compute_dtype(const ModelFiles& files, const LoadOptions& options) {
  return tensors::torch_dtype(options.compute_dtype.value_or(files.config.dtype));
}

// An unquantized weight that is wider than what is computed with is narrowed (as casting a model does).
tensors::Weight narrowed(tensors::Weight weight, at::ScalarType compute) {
  const bool wider = c10::elementSize(weight.values.scalar_type()) > c10::elementSize(compute);
  if (!weight.quantized() && wider) weight.values = weight.values.to(compute);
  return weight;
}

// Block scales of inputs (kFp8Groups) go with weights that are dequantized: those inputs stay as they are.
nn::Activations activations_for(const ModelFiles& files, const std::string& module,
                                const tensors::Weight& weight, const LoadOptions& options) {
  const checkpoint::QuantizedGroup* group = files.compression.group_of(module);
  if (!options.round_activations || !weight.quantized() || group == nullptr) return nn::Activations::kFull;
  switch (group->scheme.inputs) {
    case checkpoint::QuantizationScheme::Inputs::kFp8:
      return weight.scaled_by_row() ? nn::Activations::kFp8 : nn::Activations::kFull;
    case checkpoint::QuantizationScheme::Inputs::kInt8: return nn::Activations::kInt8;
    default: return nn::Activations::kFull;
  }
}

std::unique_ptr<nn::WeightLinear> make_linear(const ModelFiles& files, const std::string& module,
                                              tensors::Weight weight, bool bias, const LoadOptions& options) {
  const nn::Activations activations = activations_for(files, module, weight, options);
  at::Tensor bias_values;
  if (bias) bias_values = load_vector(files, module + ".bias", weight.rows);
  return std::make_unique<nn::WeightLinear>(
      narrowed(tensors::runnable(weight), compute_dtype(files, options)), bias_values, activations);
}

const nn::WeightLinear& fixed(const std::unique_ptr<nn::Linear>& linear) {
  return dynamic_cast<const nn::WeightLinear&>(*linear);
}

void place_frame(Decoder& decoder, tensors::WeightMemory& memory) {
  const bool tied = decoder.config().tie_word_embeddings;
  decoder.embedding = memory.place(decoder.embedding);
  const nn::WeightLinear& head = fixed(decoder.head);
  decoder.head = head.with_weight(tied ? decoder.embedding : memory.place(head.weight()));
}

void place_layer(DecoderLayer& layer, tensors::WeightMemory& memory) {
  for (auto& linear : layer.linears) {
    const nn::WeightLinear& source = fixed(linear);
    linear = source.with_weight(memory.place(source.weight()));
  }
}

template <typename Place>
void load_layers(const ModelFiles& files, const LoadOptions& options, Progress& progress, Decoder& decoder,
                 Place&& place) {
  progress.start("loading", files.config.num_layers, "layers");
  for (std::int64_t index = 0; index < files.config.num_layers; ++index) {
    throw_if_interrupted();
    place(decoder.layers.emplace_back(load_layer(files, index, options)));
    progress.update(index + 1);
  }
  progress.finish();
}

}  // namespace

at::Tensor read_finite(const ModelFiles& files, const std::string& name) {
  at::Tensor tensor = files.tensors->read_tensor(name);
  const std::int64_t bad =
      tensors::first_not_finite(tensor.const_data_ptr(), tensors::dtype_of(tensor), tensor.numel());
  check(bad < 0, ErrorCode::kCorruptData, "{}: value {} is NaN or infinite", files.tensors->locate(name),
        bad);
  return tensor;
}

at::Tensor load_vector(const ModelFiles& files, const std::string& name, std::int64_t length) {
  const at::Tensor tensor = read_finite(files, name);
  check(tensor.dim() == 1 && tensor.size(0) == length && tensor.is_floating_point(), ErrorCode::kCorruptData,
        "{}: expected {} floating-point values", files.tensors->locate(name), length);
  return tensor.to(at::kFloat);
}

tensors::Weight load_weight(const ModelFiles& files, std::int64_t layer, Slot slot) {
  const auto [rows, cols] = slot_shape(files.config, slot);
  return tensors::compacted(
      checkpoint::read_linear(*files.tensors, files.compression, module_name(layer, slot), rows, cols));
}

DecoderLayer load_layer(const ModelFiles& files, std::int64_t index, const LoadOptions& options) {
  const DecoderConfig& config = files.config;
  const std::string prefix = fmt::format("model.layers.{}.", index);
  DecoderLayer layer;
  layer.input_norm = load_vector(files, prefix + "input_layernorm.weight", config.hidden_size);
  layer.post_attention_norm =
      load_vector(files, prefix + "post_attention_layernorm.weight", config.hidden_size);
  if (config.query_key_norm) {
    layer.query_norm = load_vector(files, prefix + "self_attn.q_norm.weight", config.head_dim);
    layer.key_norm = load_vector(files, prefix + "self_attn.k_norm.weight", config.head_dim);
  }
  for (const Slot slot : kSlots) {
    layer.linears[static_cast<std::size_t>(slot)] =
        make_linear(files, module_name(index, slot), load_weight(files, index, slot),
                    slot_has_bias(config, slot), options);
  }
  return layer;
}

Decoder load_decoder_frame(const ModelFiles& files, const LoadOptions& options) {
  const DecoderConfig& config = files.config;
  Decoder decoder(config, compute_dtype(files, options));
  const auto read = [&](const std::string& module) {
    return tensors::runnable(checkpoint::read_linear(*files.tensors, files.compression, module,
                                                     config.vocab_size, config.hidden_size,
                                                     module == kEmbedding ? "Embedding" : "Linear"));
  };
  decoder.embedding = narrowed(read(kEmbedding), decoder.compute_dtype());
  decoder.norm = load_vector(files, "model.norm.weight", config.hidden_size);
  decoder.head =
      make_linear(files, kHead, config.tie_word_embeddings ? decoder.embedding : read(kHead), false, options);
  return decoder;
}

Decoder load_decoder(const ModelFiles& files, const LoadOptions& options, Progress& progress) {
  Decoder decoder = load_decoder_frame(files, options);
  if (options.device.is_cuda()) {
    CudaPlacement placement(options.device, decoder.compute_dtype());
    placement.place_frame(decoder);
    load_layers(files, options, progress, decoder,
                [&](DecoderLayer& layer) { placement.place_layer(layer); });
    spdlog::info("weights on {}: {}", options.device.str(), placement.summary());
    return decoder;
  }
  tensors::WeightMemory memory;
  place_frame(decoder, memory);
  load_layers(files, options, progress, decoder, [&](DecoderLayer& layer) { place_layer(layer, memory); });
  return decoder;
}

}  // namespace grille::models
