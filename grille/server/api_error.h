// What a client is told when its request cannot be served.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "grille/base/error.h"

namespace grille::server {

// HTTP status codes that the server answers with.
enum class Status : std::uint16_t {
  kOk = 200,
  kNoContent = 204,
  kBadRequest = 400,
  kUnauthorized = 401,
  kNotFound = 404,
  kMethodNotAllowed = 405,
  kPayloadTooLarge = 413,
  kUnsupportedMediaType = 415,
  kHeadersTooLarge = 431,
  kInternal = 500,
  kUnavailable = 503,
};

// Ends a request with a status and a body in OpenAI's form. `param`: the field that is wrong, or "".
class ApiError : public std::runtime_error {
 public:
  ApiError(Status status, const std::string& message, std::string param = "")
      : std::runtime_error(message), status_(status), param_(std::move(param)) {}
  Status status() const { return status_; }
  const std::string& param() const { return param_; }

 private:
  Status status_;
  std::string param_;
};

// refuse("n", "expected at least 1, got {}", n): status 400, message "n: expected at least 1, got 0".
template <typename... Args>
[[noreturn]] void refuse(const std::string& param, fmt::format_string<Args...> format, Args&&... args) {
  throw ApiError(Status::kBadRequest, param + ": " + fmt::format(format, std::forward<Args>(args)...), param);
}

// {"error": {"message", "type", "param", "code"}}, as vLLM fills them.
std::string error_body(Status status, const std::string& message, const std::string& param = "");

// The status of an error that the engine, the tokenizer or the chat template reported.
Status status_of(ErrorCode code);

}  // namespace grille::server
