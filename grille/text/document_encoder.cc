#include "grille/text/document_encoder.h"

#include "grille/base/error.h"

namespace grille::text {

std::vector<std::int32_t> DocumentEncoder::encode(const Document& document,
                                                  const std::filesystem::path& file) {
  std::vector<std::int32_t> ids;
  if (document.conversation.empty()) {
    ids = tokenizer_.encode(document.text);
  } else {  // the template writes its own special tokens
    ids = tokenizer_.encode(render(document, file), /*add_special_tokens=*/false);
  }
  if (static_cast<std::int64_t>(ids.size()) > most_tokens_)
    ids.resize(static_cast<std::size_t>(most_tokens_));
  return ids;
}

std::string DocumentEncoder::render(const Document& document, const std::filesystem::path& file) {
  if (!template_) template_ = ChatTemplate::of(tokenizer_);
  ChatOptions options;
  options.add_generation_prompt = false;
  // 26 July 2024, Llama 3.1's own default.
  options.now = std::tm{};
  options.now->tm_year = 124;
  options.now->tm_mon = 6;
  options.now->tm_mday = 26;
  options.now->tm_wday = 5;
  options.now->tm_yday = 207;
  try {
    return template_->render_object(document.conversation, options);
  } catch (const Error& error) {
    fail(error.code(), "{}: line {}: {}", file.string(), document.line, error.what());
  }
}

}  // namespace grille::text
