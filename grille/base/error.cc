#include "grille/base/error.h"

namespace grille {
namespace {

std::string one_line(const std::string& text) {
  std::string line;
  line.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  return line;
}

}  // namespace

Error::Error(ErrorCode code, const std::string& message)
    : std::runtime_error(one_line(message)), code_(code) {}

const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kCorruptData: return "corrupt data";
    case ErrorCode::kOutOfMemory: return "out of memory";
    case ErrorCode::kNoSpace: return "no space";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kDevice: return "device error";
    case ErrorCode::kInternal: return "internal error";
  }
  return "unknown error";
}

}  // namespace grille
