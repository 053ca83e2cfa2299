#include "grille/text/rust_call.h"

#include <memory>

#include "grille/base/error.h"

namespace grille::text {

std::string take(grille_text_bytes bytes) {
  struct Free {
    grille_text_bytes owned;
    ~Free() { grille_text_bytes_free(owned); }
  } const guard{bytes};
  return bytes.size == 0 ? std::string() : std::string(bytes.data, bytes.size);
}

std::vector<std::int32_t> take(grille_text_ids ids) {
  struct Free {
    grille_text_ids owned;
    ~Free() { grille_text_ids_free(owned); }
  } const guard{ids};
  return ids.size == 0 ? std::vector<std::int32_t>()
                       : std::vector<std::int32_t>(ids.data, ids.data + ids.size);
}

void check_status(grille_text_status status, grille_text_bytes error, std::string_view subject) {
  const std::string message = take(error);
  if (status == GRILLE_TEXT_OK) return;
  const ErrorCode code =
      status == GRILLE_TEXT_INVALID ? ErrorCode::kInvalidArgument : ErrorCode::kCorruptData;
  fail(code, "{}: {}", subject, message);
}

}  // namespace grille::text
