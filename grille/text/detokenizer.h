// Token ids to text, one id at a time, as a stream shows it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "grille/text/tokenizer.h"

namespace grille::text {

// The pieces of push() and flush() together are Tokenizer::decode of all ids, with one exception: a run
// of byte-fallback tokens that is no UTF-8. There Hugging Face turns the whole run into U+FFFD, which a
// stream, having shown the run's good beginning, cannot take back; here only what is not UTF-8 is.
// No piece holds half a character. push() costs a decode of a few tokens.
class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, bool skip_special_tokens = true);

  // Text that comes before: the first piece then keeps the space that starts it. Call it before push.
  void set_context(std::span<const std::int32_t> prompt);

  // The text that this id completes; "" while a character is not complete.
  std::string push(std::int32_t id);

  // What is still held back; after it the stream is over.
  std::string flush();

 private:
  std::string push_byte(std::int32_t id, std::uint8_t byte);
  std::string flush_bytes();
  std::string push_token(std::int32_t id);
  std::string flush_pending();
  std::string pending_text() const;

  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  bool started_ = false;
  // Ids whose text has been given out; they make the decoder put the right space before the next.
  std::vector<std::int32_t> context_;
  std::string context_text_;
  // Ids whose text ends in the middle of a character.
  std::vector<std::int32_t> pending_;
  // Byte-fallback ids, and their bytes, that are not yet a character.
  std::vector<std::int32_t> byte_ids_;
  std::string bytes_;
};

}  // namespace grille::text
