// For tests: a random two-layer Llama on disk, without a tokenizer.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <nlohmann/json.hpp>

#include "grille/checkpoint/safetensors_writer.h"
#include "grille/checkpoint/scratch_directory.h"
#include "grille/compress/options.h"
#include "grille/models/decoder.h"
#include "grille/models/model_files.h"
#include "grille/tensors/views.h"
#include "grille/text/calibration.h"

namespace grille::compress {

inline nlohmann::json tiny_config() {
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"vocab_size", 50},
          {"hidden_size", 32},
          {"intermediate_size", 40},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 64},
          {"torch_dtype", "float32"},
          {"tie_word_embeddings", true}};
}

inline void write_tensors(const std::filesystem::path& file,
                          const std::map<std::string, at::Tensor>& tensors) {
  std::vector<checkpoint::TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors)
    specs.push_back({name, tensors::dtype_of(tensor), tensor.sizes().vec()});
  checkpoint::SafetensorsWriter writer(file, specs);
  for (const auto& [name, tensor] : tensors)
    writer.write(name, {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
  writer.finish();
}

inline std::map<std::string, at::Tensor> tiny_tensors() {
  const models::DecoderConfig config = models::parse_config(tiny_config(), "config.json");
  std::map<std::string, at::Tensor> tensors = {{"model.embed_tokens.weight", at::randn({50, 32})},
                                               {"model.norm.weight", at::ones({32})}};
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer);
    tensors[prefix + ".input_layernorm.weight"] = at::ones({32});
    tensors[prefix + ".post_attention_layernorm.weight"] = at::ones({32});
    for (const models::Slot slot : models::kSlots) {
      const auto [rows, cols] = models::slot_shape(config, slot);
      tensors[models::module_name(layer, slot) + ".weight"] = at::randn({rows, cols}).mul(0.2);
    }
  }
  return tensors;
}

// The files in a folder of their own.
class TinyModel {
 public:
  explicit TinyModel(const std::map<std::string, at::Tensor>& tensors = tiny_tensors()) {
    write_tensors(folder_ / "model.safetensors", tensors);
    folder_.write("config.json", tiny_config().dump());
  }
  const std::filesystem::path& path() const { return folder_.path(); }
  models::ModelFiles open() const { return models::open_model(path().string()); }

 private:
  checkpoint::ScratchDirectory folder_;
};

inline std::vector<text::CalibrationWindow> tiny_calibration(std::int32_t first_id = 0) {
  std::vector<text::CalibrationWindow> windows(4);
  std::int32_t id = first_id;
  for (text::CalibrationWindow& window : windows) {
    for (int i = 0; i < 40; ++i) window.ids.push_back(id = (id * 7 + 3) % 50);
    window.segment_lengths = {25, 15};
  }
  return windows;
}

}  // namespace grille::compress
