#include "grille/server/http_message.h"

#include <algorithm>
#include <cctype>
#include <random>

namespace grille::server {

HttpReply json_reply(std::string body, Status status) {
  HttpReply reply;
  reply.status = status;
  reply.content_type = "application/json";
  reply.body = std::move(body);
  return reply;
}

HttpReply error_reply(const ApiError& error) {
  // What vLLM says to a client without a key.
  if (error.status() == Status::kUnauthorized)
    return json_reply(R"({"error":"Unauthorized"})", error.status());
  HttpReply reply = json_reply(error_body(error.status(), error.what(), error.param()), error.status());
  if (error.status() == Status::kUnavailable) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

bool is_json(const std::string& content_type) {
  std::string type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return type == "application/json";
}

std::string request_id_from(const std::string& given) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  constexpr std::size_t kLongest = 128;
  if (!given.empty() && given.size() <= kLongest && std::all_of(given.begin(), given.end(), plain))
    return given;
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return fmt::format("{:016x}{:016x}", generator(), generator());
}

}  // namespace grille::server
