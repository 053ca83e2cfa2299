#include "grille/server/api_error.h"

#include <nlohmann/json.hpp>

namespace grille::server {
namespace {

const char* type_name(Status status) {
  switch (status) {
    case Status::kNotFound: return "NotFoundError";
    case Status::kUnauthorized: return "AuthenticationError";
    case Status::kInternal: return "InternalServerError";
    case Status::kUnavailable: return "ServiceUnavailableError";
    default: return "BadRequestError";
  }
}

}  // namespace

std::string error_body(Status status, const std::string& message, const std::string& param) {
  using Json = nlohmann::ordered_json;
  const Json body = {{"error",
                      {{"message", message},
                       {"type", type_name(status)},
                       {"param", param.empty() ? Json() : Json(param)},
                       {"code", static_cast<int>(status)}}}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported: return Status::kBadRequest;
    case ErrorCode::kCancelled:
    case ErrorCode::kOutOfMemory: return Status::kUnavailable;
    default: return Status::kInternal;
  }
}

}  // namespace grille::server
