// Paths and methods.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace grille::server {

enum class Route : std::uint8_t {
  kCompletions,
  kChatCompletions,
  kModels,
  kModel,  // /v1/models/NAME
  kTokenize,
  kDetokenize,
  kHealth,
  kMetrics,
  kVersion,
  kModelCard,
  kWebFile,
  kNone,
};

struct RouteMatch {
  Route route = Route::kNone;
  const char* name = "other";  // for logs and metrics: a closed set
  bool post = false;           // takes POST; the others take GET and HEAD
  bool open = false;           // needs no API key
  std::string argument;        // kModel: the name; kWebFile: the path
};

// `target`: as in the request line; what follows a ? is ignored.
RouteMatch match_route(std::string_view target);

}  // namespace grille::server
