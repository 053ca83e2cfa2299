#include "grille/server/sse.h"

#include "grille/server/response_writer.h"

namespace grille::server {

// JSON text holds no raw line break, so one line carries it.
std::string sse_event(const Json& json) { return "data: " + to_text(json) + "\n\n"; }
std::string sse_done() { return "data: [DONE]\n\n"; }
std::string sse_error(const std::string& error_body) { return "data: " + error_body + "\n\n"; }

}  // namespace grille::server
