#include "grille/text/bounded_json.h"

#include <array>
#include <limits>

namespace grille::text {
namespace {

template <typename Json>
Json parse(std::string_view text, std::size_t max_members) {
  constexpr int kMaxDepth = 100;
  bool too_large = false;
  std::array<std::size_t, kMaxDepth + 2> members{};  // of the object that is open at each depth
  const auto watch = [&](int depth, typename Json::parse_event_t event, const Json&) {
    if (depth > kMaxDepth) too_large = true;
    if (too_large) return false;  // what comes is not built
    const auto level = static_cast<std::size_t>(depth);
    if (event == Json::parse_event_t::object_start) members[level + 1] = 0;
    if (event == Json::parse_event_t::key && ++members[level] > max_members) too_large = true;
    return !too_large;
  };
  Json value = Json::parse(text, watch, /*allow_exceptions=*/false);
  return too_large ? Json(Json::value_t::discarded) : value;
}

}  // namespace

nlohmann::json parse_bounded(std::string_view text) {
  return parse<nlohmann::json>(text, std::numeric_limits<std::size_t>::max());
}

nlohmann::ordered_json parse_bounded_ordered(std::string_view text) {
  return parse<nlohmann::ordered_json>(text, kMaxOrderedMembers);
}

}  // namespace grille::text
