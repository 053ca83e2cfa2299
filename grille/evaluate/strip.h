// White space at the ends of UTF-8 text.
#pragma once

#include <string_view>

namespace grille::evaluate {

// Without the white space at its end, or at both: the characters for which Python's str.isspace() holds.
std::string_view strip_end(std::string_view text);
std::string_view strip(std::string_view text);

}  // namespace grille::evaluate
