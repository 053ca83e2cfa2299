#include "grille/text/bounded_json.h"

namespace grille::text {

nlohmann::json parse_bounded(std::string_view text) {
  using Json = nlohmann::json;
  constexpr int kMaxDepth = 100;
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth > kMaxDepth) too_deep = true;
    return depth <= kMaxDepth;  // what is deeper is not built
  };
  Json value = Json::parse(text, watch, /*allow_exceptions=*/false);
  return too_deep ? Json(Json::value_t::discarded) : value;
}

}  // namespace grille::text
