// For tests: a model whose ids 0 to 255 are bytes, with a chat template, and no weights.
#pragma once

#include <string>
#include <vector>

#include "grille/server/served_model.h"
#include "grille/text/ggml_vocabulary.h"
#include "grille/text/test_data.h"

namespace grille::server::testing {

constexpr std::int32_t kBos = 261;
constexpr std::int32_t kEos = 262;

inline ServedModel test_model(std::int64_t max_positions = 4096) {
  const text::Tokenizer tokenizer = text::tokenizer_of(text::testing::byte_vocabulary());
  const std::string chat =
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}[assistant]{% endif %}{% if mood is defined %}({{ mood }}){% endif %}";
  return {.names = {"test", "alias"},
          .tokenizer = tokenizer,
          .chat_template = text::ChatTemplate(chat, "<s>", "</s>"),
          .vocab_size = 263,
          .max_positions = max_positions,
          .defaults = {},
          .card = R"({"architecture":"none"})",
          .created = 1};
}

// Ids of a text, a byte each.
inline std::vector<std::int32_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const unsigned char*>(text.data()),
          reinterpret_cast<const unsigned char*>(text.data()) + text.size()};
}

}  // namespace grille::server::testing
