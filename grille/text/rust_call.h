// Calling the Rust library: owned buffers become strings and vectors, statuses become grille::Error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grille/text/rust/grille_text.h"

namespace grille::text {

// Both free the buffer, also when they throw.
std::string take(grille_text_bytes bytes);
std::vector<std::int32_t> take(grille_text_ids ids);

// Throws Error with "<subject>: <message>" unless status is OK; frees `error`. A corrupt tokenizer or
// template is kCorruptData, a bad argument or an error raised by a template kInvalidArgument. A panic
// while a file is being read is the file's fault; `panic_is_corrupt` says so.
void check_status(grille_text_status status, grille_text_bytes error, std::string_view subject,
                  bool panic_is_corrupt = false);

}  // namespace grille::text
