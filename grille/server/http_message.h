// A request and an answer, apart from how they travel.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "grille/server/api_error.h"

namespace grille::server {

struct HttpRequest {
  std::string method;
  std::string target;
  std::string content_type;
  std::string authorization;
  std::string origin;
  std::string request_id;  // the client's X-Request-Id, or one of ours
  std::string body;
  bool keep_alive = false;
  bool http_1_0 = false;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  Status status = Status::kOk;
  std::string content_type;
  std::string body;
  HttpHeaders headers;
  bool close = false;  // the connection ends with it
};

HttpReply json_reply(std::string body, Status status = Status::kOk);
HttpReply error_reply(const ApiError& error);

// True for "application/json", with or without parameters.
bool is_json(const std::string& content_type);

// `given` if it may stand in a header and a log, otherwise a random one.
std::string request_id_from(const std::string& given);

}  // namespace grille::server
