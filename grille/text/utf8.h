// UTF-8, one character at a time.
#pragma once

#include <cstddef>
#include <string_view>

namespace grille::text {

enum class Utf8State { kValid, kIncomplete, kInvalid };

struct Utf8Scan {
  Utf8State state;    // kValid: all of it is UTF-8; kIncomplete: it ends within a character
  std::size_t valid;  // bytes before the first character that is not complete and right
};

// Overlong forms, surrogates and values above U+10FFFF are invalid.
Utf8Scan scan_utf8(std::string_view bytes);

inline bool is_utf8(std::string_view bytes) { return scan_utf8(bytes).state == Utf8State::kValid; }

}  // namespace grille::text
