#include "grille/server/served_model.h"

#include <utility>

#include "grille/base/error.h"
#include "grille/text/bounded_json.h"

namespace grille::server {

SamplingDefaults sampling_defaults(const std::string& generation_config) {
  SamplingDefaults defaults;
  if (generation_config.empty()) return defaults;
  const nlohmann::json config = text::parse_bounded(generation_config);
  check(config.is_object(), ErrorCode::kCorruptData, "generation_config.json: not a JSON object");
  const auto number = [&](const char* key, double& value) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) return;
    check(found->is_number(), ErrorCode::kCorruptData, "generation_config.json: {} is not a number", key);
    value = found->get<double>();
  };
  number("temperature", defaults.temperature);
  number("top_p", defaults.top_p);
  number("min_p", defaults.min_p);
  number("repetition_penalty", defaults.repetition_penalty);
  double top_k = 0;
  number("top_k", top_k);
  check(top_k >= -1 && top_k <= 1e9, ErrorCode::kCorruptData, "generation_config.json: top_k is {}", top_k);
  defaults.top_k = top_k > 0 ? static_cast<std::int64_t>(top_k) : 0;
  return defaults;
}

}  // namespace grille::server
