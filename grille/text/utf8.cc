#include "grille/text/utf8.h"

#include <algorithm>
#include <cstdint>

namespace grille::text {

namespace {

struct Lead {
  int length;               // bytes of the character, 0: not a lead byte
  std::uint8_t second_min;  // the range of the second byte excludes overlong forms and surrogates
  std::uint8_t second_max;  // (Unicode standard, table 3-7)
};

Lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Scan scan_utf8(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Lead lead = lead_of(static_cast<std::uint8_t>(bytes[at]));
    if (lead.length == 0) return {Utf8State::kInvalid, at};
    const std::size_t present = std::min<std::size_t>(lead.length, bytes.size() - at);
    for (std::size_t i = 1; i < present; ++i) {
      const auto byte = static_cast<std::uint8_t>(bytes[at + i]);
      const std::uint8_t low = i == 1 ? lead.second_min : 0x80;
      const std::uint8_t high = i == 1 ? lead.second_max : 0xBF;
      if (byte < low || byte > high) return {Utf8State::kInvalid, at};
    }
    if (present < static_cast<std::size_t>(lead.length)) return {Utf8State::kIncomplete, at};
    at += present;
  }
  return {Utf8State::kValid, at};
}

}  // namespace grille::text
