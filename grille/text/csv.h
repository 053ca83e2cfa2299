// Comma-separated values (RFC 4180).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace grille::text {

struct CsvRow {
  std::vector<std::string> fields;  // at least one
  std::int64_t line = 0;            // where it begins, from 1
};

// A row ends with \n, \r\n or the text; blank lines are no rows. A field that begins with a quote ends with
// one and may hold commas, line breaks (kept as they are) and, doubled, quotes; elsewhere a quote is a
// character like any other, as Python's csv and pandas read it. `file` is named in errors:
// Error{kCorruptData} with the line for a quoted field that does not end, or that goes on behind its quote.
// Linear in the text.
std::vector<CsvRow> parse_csv(std::string_view text, const std::filesystem::path& file);

// The rows of a UTF-8 file. Throws as read_text_file() and parse_csv().
std::vector<CsvRow> read_csv(const std::filesystem::path& file);

}  // namespace grille::text
