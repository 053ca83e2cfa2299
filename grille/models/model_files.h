// A model on disk: a Hugging Face directory, a GGUF file, or a hub id in the local cache.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "grille/checkpoint/compressed_tensors.h"
#include "grille/checkpoint/tensor_source.h"
#include "grille/models/config.h"
#include "grille/text/ggml_vocabulary.h"
#include "grille/text/tokenizer.h"

namespace grille::models {

struct ModelFiles {
  std::filesystem::path path;  // the directory or file that was opened
  bool from_gguf = false;
  nlohmann::json hf_config;  // config.json, or an equivalent made from the GGUF's metadata
  DecoderConfig config;
  checkpoint::CompressionConfig compression;
  // Tensors under their Hugging Face names and in Hugging Face's row order.
  std::unique_ptr<checkpoint::TensorSource> tensors;
  std::optional<text::GgmlVocabulary> gguf_vocabulary;
};

// Opens and checks: architecture supported, every expected tensor present with the right shape, none that
// would be ignored. Reads headers only. Throws Error{kNotFound, kUnsupported, kCorruptData} with the path.
// A hub id "org/name" that is not in the local cache names the `hf download` command.
ModelFiles open_model(const std::string& model);

// A model of random weights (DummyTensors) in the shapes and formats of a Hugging Face folder's config.json,
// the only file that is read. Throws as open_model().
ModelFiles open_dummy_model(const std::string& model, std::uint64_t seed);

// The tokenizer (and chat template) that came with the model. Throws Error{kNotFound} if it has none,
// Error{kCorruptData} if it has ids that the model's embedding does not.
text::Tokenizer load_tokenizer(const ModelFiles& files);

// Files besides weights and config.json that belong to the model: name -> contents (tokenizer.json, ...).
std::map<std::string, std::string> side_files(const ModelFiles& files);

}  // namespace grille::models
