// JSON from a stranger's file.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

namespace grille::text {

// A discarded value (is_discarded()) when `text` is no JSON or is nested more than 100 deep: copying and
// printing a value recurse.
nlohmann::json parse_bounded(std::string_view text);

}  // namespace grille::text
