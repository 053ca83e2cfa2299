#include "grille/evaluate/strip.h"

#include <algorithm>
#include <array>

namespace grille::evaluate {
namespace {

constexpr std::array<std::string_view, 29> kWhiteSpace = {" ",
                                                          "\t",
                                                          "\n",
                                                          "\v",
                                                          "\f",
                                                          "\r",
                                                          "\x1c",
                                                          "\x1d",
                                                          "\x1e",
                                                          "\x1f",
                                                          "\xC2\x85",
                                                          "\xC2\xA0",
                                                          "\xE1\x9A\x80",
                                                          "\xE2\x80\x80",
                                                          "\xE2\x80\x81",
                                                          "\xE2\x80\x82",
                                                          "\xE2\x80\x83",
                                                          "\xE2\x80\x84",
                                                          "\xE2\x80\x85",
                                                          "\xE2\x80\x86",
                                                          "\xE2\x80\x87",
                                                          "\xE2\x80\x88",
                                                          "\xE2\x80\x89",
                                                          "\xE2\x80\x8A",
                                                          "\xE2\x80\xA8",
                                                          "\xE2\x80\xA9",
                                                          "\xE2\x80\xAF",
                                                          "\xE2\x81\x9F",
                                                          "\xE3\x80\x80"};

}  // namespace

std::string_view strip_end(std::string_view text) {
  for (;;) {
    const auto* found = std::find_if(kWhiteSpace.begin(), kWhiteSpace.end(),
                                     [&](std::string_view space) { return text.ends_with(space); });
    if (found == kWhiteSpace.end()) return text;
    text.remove_suffix(found->size());
  }
}

std::string_view strip(std::string_view text) {
  for (;;) {
    const auto* found = std::find_if(kWhiteSpace.begin(), kWhiteSpace.end(),
                                     [&](std::string_view space) { return text.starts_with(space); });
    if (found == kWhiteSpace.end()) return strip_end(text);
    text.remove_prefix(found->size());
  }
}

}  // namespace grille::evaluate
