#include "grille/models/load.h"

#include <fmt/format.h>

#include <ATen/ops/empty.h>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
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

bool quantizes_activations(const ModelFiles& files, const std::string& module) {
  const checkpoint::Fp8Group* group = files.compression.fp8_group(module);
  return group != nullptr && group->dynamic_activations;
}

nn::Activations activations_for(const ModelFiles& files, const std::string& module,
                                const tensors::Weight& weight, const LoadOptions& options) {
  const bool dynamic = weight.quantized() && quantizes_activations(files, module);
  return dynamic ? options.activations : nn::Activations::kFull;
}

std::unique_ptr<nn::WeightLinear> make_linear(const ModelFiles& files, const std::string& module,
                                              tensors::Weight weight, bool bias, const LoadOptions& options) {
  const nn::Activations activations = activations_for(files, module, weight, options);
  at::Tensor bias_values;
  if (bias) bias_values = load_vector(files, module + ".bias", weight.rows);
  return std::make_unique<nn::WeightLinear>(narrowed(std::move(weight), compute_dtype(files, options)),
                                            bias_values, activations);
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
  return checkpoint::read_linear(*files.tensors, files.compression, module_name(layer, slot), rows, cols);
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
    return checkpoint::read_linear(*files.tensors, files.compression, module, config.vocab_size,
                                   config.hidden_size, module == kEmbedding ? "Embedding" : "Linear");
  };
  decoder.embedding = narrowed(read(kEmbedding), decoder.compute_dtype());
  decoder.norm = load_vector(files, "model.norm.weight", config.hidden_size);
  decoder.head =
      make_linear(files, kHead, config.tie_word_embeddings ? decoder.embedding : read(kHead), false, options);
  return decoder;
}

Decoder load_decoder(const ModelFiles& files, const LoadOptions& options, Progress& progress) {
  tensors::WeightMemory memory;
  Decoder decoder = load_decoder_frame(files, options);
  decoder.embedding = memory.place(decoder.embedding);
  decoder.head = decoder.head->with_weight(
      files.config.tie_word_embeddings ? decoder.embedding : memory.place(decoder.head->weight()));
  progress.start("loading", files.config.num_layers, "layers");
  for (std::int64_t index = 0; index < files.config.num_layers; ++index) {
    throw_if_interrupted();
    DecoderLayer& layer = decoder.layers.emplace_back(load_layer(files, index, options));
    for (auto& linear : layer.linears) {
      const auto& fixed = dynamic_cast<const nn::WeightLinear&>(*linear);
      linear = fixed.with_weight(memory.place(fixed.weight()));
    }
    progress.update(index + 1);
  }
  progress.finish();
  return decoder;
}

}  // namespace grille::models
