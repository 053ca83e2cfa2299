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

// Throws Error with "<subject>: <message>" unless status is OK; frees `error`. A bad argument, or an
// error that a template raises, is kInvalidArgument. A corrupt tokenizer or template is kCorruptData, and
// so is a panic: what these libraries do not expect comes out of such a file.
void check_status(grille_text_status status, grille_text_bytes error, std::string_view subject);

}  // namespace grille::text
