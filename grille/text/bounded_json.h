// JSON from a stranger's file.
#pragma once

#include <cstddef>
#include <string_view>

#include <nlohmann/json.hpp>

namespace grille::text {

// A discarded value (is_discarded()) when `text` is no JSON or is nested more than 100 deep: copying and
// printing a value recurse.
nlohmann::json parse_bounded(std::string_view text);

// The same with the order of keys kept. An object of more than kMaxOrderedMembers is discarded too: a member
// is looked for one after the other, so that large ones would cost their size squared.
constexpr std::size_t kMaxOrderedMembers = 1024;
nlohmann::ordered_json parse_bounded_ordered(std::string_view text);

}  // namespace grille::text
