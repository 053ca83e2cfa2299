// A GGUF file seen as a Hugging Face checkpoint.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "grille/checkpoint/gguf.h"
#include "grille/text/ggml_vocabulary.h"

namespace grille::models {

// config.json made from the metadata; `path` names the file in errors. Throws Error{kUnsupported} for an
// architecture or rope scaling that is not supported.
nlohmann::json hf_config_from_gguf(const checkpoint::GgufSource& file, const std::string& path);

// The file's tokenizer; its `model` is empty when there is none.
text::GgmlVocabulary vocabulary_from_gguf(const checkpoint::GgufSource& file);

// The tensors under Hugging Face names. llama.cpp stores the rows of q and k of the llama architecture so
// that rotary embedding turns neighbouring rows (2j, 2j + 1); here they are back in Hugging Face's order
// (j, j + head_dim / 2).
std::unique_ptr<checkpoint::TensorSource> hf_tensors_from_gguf(std::unique_ptr<checkpoint::GgufSource> file,
                                                               const nlohmann::json& hf_config);

}  // namespace grille::models
