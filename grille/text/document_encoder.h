// Documents of a JSONL file to token ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "grille/text/chat_template.h"
#include "grille/text/text_files.h"
#include "grille/text/tokenizer.h"

namespace grille::text {

class DocumentEncoder {
 public:
  // Documents are cut after `most_tokens` ids. `tokenizer` must outlive the encoder.
  DocumentEncoder(const Tokenizer& tokenizer, std::int64_t most_tokens)
      : tokenizer_(tokenizer), most_tokens_(most_tokens) {}

  // A text with the special tokens that the model puts around it, or a conversation through the model's
  // chat template (always of the same day, so that results repeat). `file` is named in errors.
  std::vector<std::int32_t> encode(const Document& document, const std::filesystem::path& file);

 private:
  std::string render(const Document& document, const std::filesystem::path& file);

  const Tokenizer& tokenizer_;
  std::int64_t most_tokens_;
  std::optional<ChatTemplate> template_;
};

}  // namespace grille::text
