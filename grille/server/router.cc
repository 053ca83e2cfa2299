#include "grille/server/router.h"

#include <array>

namespace grille::server {
namespace {

struct Entry {
  std::string_view path;
  RouteMatch match;
};

const std::array kRoutes = {
    Entry{"/v1/completions", {Route::kCompletions, "/v1/completions", true, false, ""}},
    Entry{"/v1/chat/completions", {Route::kChatCompletions, "/v1/chat/completions", true, false, ""}},
    Entry{"/v1/models", {Route::kModels, "/v1/models", false, false, ""}},
    Entry{"/tokenize", {Route::kTokenize, "/tokenize", true, false, ""}},
    Entry{"/detokenize", {Route::kDetokenize, "/detokenize", true, false, ""}},
    Entry{"/health", {Route::kHealth, "/health", false, true, ""}},
    Entry{"/metrics", {Route::kMetrics, "/metrics", false, true, ""}},
    Entry{"/version", {Route::kVersion, "/version", false, true, ""}},
    Entry{"/model_card", {Route::kModelCard, "/model_card", false, false, ""}},
    Entry{"/", {Route::kWebFile, "/", false, true, "/index.html"}},
    Entry{"/app.js", {Route::kWebFile, "/app.js", false, true, "/app.js"}},
    Entry{"/metrics.js", {Route::kWebFile, "/metrics.js", false, true, "/metrics.js"}},
    Entry{"/style.css", {Route::kWebFile, "/style.css", false, true, "/style.css"}},
};
constexpr std::string_view kModelPrefix = "/v1/models/";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// %2F and the like; what is no escape stays as it is.
std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    if (escape) {
      result += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

RouteMatch match_route(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  for (const Entry& entry : kRoutes) {
    if (entry.path == path) return entry.match;
  }
  if (path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size())
    return {Route::kModel, "/v1/models/{name}", false, false, unescaped(path.substr(kModelPrefix.size()))};
  return {};
}

}  // namespace grille::server
