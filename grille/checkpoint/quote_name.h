// Names from files inside one-line messages.
#pragma once

#include <string>
#include <string_view>

namespace grille::checkpoint {

// 'text' with control characters and quotes escaped, cut after 120 bytes: a hostile name cannot break a line
// or flood a terminal.
std::string quote_name(std::string_view text);

// True if `text` is well-formed UTF-8 (no surrogates, no overlong forms).
bool is_utf8(std::string_view text);

}  // namespace grille::checkpoint
