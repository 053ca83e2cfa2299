// Server-sent events, as OpenAI's streams use them.
#pragma once

#include <string>

#include "grille/server/json_fields.h"

namespace grille::server {

// "data: {...}\n\n"
std::string sse_event(const Json& json);
// The event that ends every stream: "data: [DONE]\n\n".
std::string sse_done();
// An error after the stream has begun.
std::string sse_error(const std::string& error_body);

}  // namespace grille::server
