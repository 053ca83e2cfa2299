// The tokenizer that a GGUF file carries, as a Hugging Face one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "grille/text/tokenizer.h"

namespace grille::text {

// The `tokenizer.*` metadata of a GGUF file; absent keys stay empty.
struct GgmlVocabulary {
  std::string model;  // tokenizer.ggml.model: "gpt2" (byte-level BPE) or "llama" (SentencePiece BPE)
  std::string pre;    // tokenizer.ggml.pre: how text is cut before BPE; "" means "default"
  std::vector<std::string> tokens;
  std::vector<std::int32_t> token_types;  // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::vector<float> scores;              // "llama": the order of the merges
  std::vector<std::string> merges;        // "gpt2": "left right", best first
  std::optional<std::int64_t> bos_id;
  std::optional<std::int64_t> eos_id;
  std::optional<std::int64_t> eot_id;  // ends a turn, where that is not the EOS
  std::optional<std::int64_t> unk_id;
  std::optional<std::int64_t> pad_id;
  std::optional<bool> add_bos;           // absent: yes for "llama" and Llama 3, as llama.cpp does
  std::optional<bool> add_eos;           // absent: no
  std::optional<bool> add_space_prefix;  // absent: yes for "llama"
  std::string chat_template;
};

// A tokenizer.json. Throws Error{kUnsupported} that lists the known models and pre-tokenizers, and
// Error{kCorruptData} for a vocabulary that contradicts itself: arrays of different length, duplicate
// tokens, ids or merges that name no token, tokens that are not UTF-8, scores that are no numbers.
// Takes about 0.1 s for 50,000 tokens.
std::string tokenizer_json(const GgmlVocabulary& vocabulary);

// The tokenizer_config.json to go beside it. The two make a directory that transformers loads.
std::string tokenizer_config_json(const GgmlVocabulary& vocabulary);

// The tokenizer itself, without a detour over files.
Tokenizer tokenizer_of(const GgmlVocabulary& vocabulary);

}  // namespace grille::text
