// Everything that is answered at once, without the engine's work.
#pragma once

#include "grille/server/http_message.h"
#include "grille/server/router.h"
#include "grille/server/served_model.h"
#include "grille/server/server_context.h"

namespace grille::server {

// Answers every route but the two generating ones. Throws ApiError. /tokenize and /detokenize may take long.
HttpReply answer_endpoint(const RouteMatch& match, const HttpRequest& request, const ServerContext& context);

// The parts, for tests.
Json model_json(const std::string& name, const ServedModel& model);
Json tokenize(const Json& body, const ServedModel& model);
Json detokenize(const Json& body, const ServedModel& model);

}  // namespace grille::server
