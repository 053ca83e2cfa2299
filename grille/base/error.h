// The one exception type of the library.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace grille {

enum class ErrorCode {
  kInvalidArgument,  // the caller's input is wrong: shapes, options, missing data
  kUnsupported,      // valid, but this build, device or version has no code for it
  kNotFound,         // a file, tensor or key does not exist
  kCorruptData,      // a file's contents contradict its format
  kOutOfMemory,
  kNoSpace,    // a full disk, or a file that could not be written
  kCancelled,  // interrupted by the user
  kDevice,     // a CUDA call failed
  kInternal,   // our own fault
};

// "invalid argument", "corrupt data", ...
const char* error_code_name(ErrorCode code);

// Thrown for everything that ends a call. The message is one line: what, where, and what to do, with
// the values that were seen. Control characters in it (names from a stranger's file) are written as \n, \x1b,
// ...
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message);
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// fail(ErrorCode::kInvalidArgument, "matmul_24: expected {} columns, got {}", k, x.cols);
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void check(bool condition, ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) fail(code, format, std::forward<Args>(args)...);
}

}  // namespace grille
