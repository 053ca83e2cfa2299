#include "grille/text/detokenizer.h"

#include <algorithm>
#include <utility>

#include "grille/text/utf8.h"

namespace grille::text {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
// Enough ids to hold one whole character and a token before it.
constexpr std::size_t kContextIds = 8;

}  // namespace

Detokenizer::Detokenizer(Tokenizer tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

void Detokenizer::set_context(std::span<const std::int32_t> prompt) {
  for (const std::int32_t id : prompt.last(std::min(prompt.size(), kContextIds))) push(id);
  flush();
}

std::string Detokenizer::push(std::int32_t id) {
  if (skip_special_tokens_ && tokenizer_.is_special(id)) return "";
  if (const auto byte = tokenizer_.fallback_byte(id)) {
    std::string held = flush_pending();
    return held + push_byte(id, *byte);
  }
  // A run of bytes ends here: what is left of it is no character.
  std::string piece = flush_bytes();
  return piece + push_token(id);
}

std::string Detokenizer::push_byte(std::int32_t id, std::uint8_t byte) {
  byte_ids_.push_back(id);
  bytes_.push_back(static_cast<char>(byte));
  const Utf8Scan scan = scan_utf8(bytes_);
  if (scan.state == Utf8State::kIncomplete) return "";
  if (scan.state == Utf8State::kInvalid) {
    // The last byte begins a new character, or is none itself; those before it are not one.
    const bool begins =
        bytes_.size() > 1 && scan_utf8(bytes_.substr(bytes_.size() - 1)).state != Utf8State::kInvalid;
    if (!begins) return flush_bytes();
    byte_ids_.pop_back();
    bytes_.pop_back();
    std::string piece = flush_bytes();
    return piece + push_byte(id, byte);
  }
  return flush_bytes();
}

std::string Detokenizer::flush_bytes() {
  if (byte_ids_.empty()) return "";
  // The decoder drops a space at the very start, so there it does the work.
  std::string piece;
  if (!started_) {
    piece = tokenizer_.decode(byte_ids_);
  } else if (is_utf8(bytes_)) {
    piece = bytes_;
  } else {
    for (std::size_t i = 0; i < bytes_.size(); ++i) piece += kReplacement;
  }
  started_ = true;
  context_ = std::exchange(byte_ids_, {});
  context_text_ = tokenizer_.decode(context_, skip_special_tokens_);
  bytes_.clear();
  return piece;
}

std::string Detokenizer::pending_text() const {
  std::vector<std::int32_t> ids = context_;
  ids.insert(ids.end(), pending_.begin(), pending_.end());
  const std::string text = tokenizer_.decode(ids, skip_special_tokens_);
  return text.starts_with(context_text_) ? text.substr(context_text_.size())
                                         : tokenizer_.decode(pending_, skip_special_tokens_);
}

std::string Detokenizer::push_token(std::int32_t id) {
  pending_.push_back(id);
  if (pending_text().ends_with(kReplacement)) return "";  // the next id may complete it
  return flush_pending();
}

std::string Detokenizer::flush_pending() {
  if (pending_.empty()) return "";
  std::string piece = pending_text();
  started_ = true;
  context_ = std::exchange(pending_, {});
  context_text_ = tokenizer_.decode(context_, skip_special_tokens_);
  return piece;
}

std::string Detokenizer::flush() {
  // At most one of the two holds something.
  std::string piece = flush_pending();
  return piece + flush_bytes();
}

}  // namespace grille::text
