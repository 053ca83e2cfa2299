#include "grille/base/error.h"

namespace grille {

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
