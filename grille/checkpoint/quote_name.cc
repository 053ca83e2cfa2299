#include "grille/checkpoint/quote_name.h"

#include <cstdint>

#include <fmt/format.h>

namespace grille::checkpoint {

std::string quote_name(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  std::string result = "'";
  for (const char c : text.substr(0, kLongest)) {
    const unsigned byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '\'' || c == '\\') {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  if (text.size() > kLongest) result += "...";
  return result + "'";
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const unsigned lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80) continue;
    const int extra = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || text.size() - i < static_cast<std::size_t>(extra)) return false;
    std::uint32_t code = lead & (0x3fu >> extra);
    for (int k = 0; k < extra; ++k) {
      const unsigned next = static_cast<unsigned char>(text[i++]);
      if ((next & 0xc0u) != 0x80u) return false;
      code = (code << 6) | (next & 0x3fu);
    }
    constexpr std::uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
    if (code < kSmallest[extra] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  }
  return true;
}

}  // namespace grille::checkpoint
