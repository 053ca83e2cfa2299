// Windows of token ids for calibration: token files, plain text, or documents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "grille/text/tokenizer.h"

namespace grille::text {

struct CalibrationOptions {
  // .u16 and .u32: token ids, cut into consecutive windows of `context`.
  // .jsonl: one document a line, truncated to `context`; shorter ones are packed.
  // Anything else: text, tokenized whole, of which windows are taken at seeded random places.
  // Several files: each gives an equal share of the samples, the first ones more where it does not divide.
  std::vector<std::filesystem::path> files;
  std::int64_t samples = 128;
  std::int64_t context = 2048;
  std::uint64_t seed = 0;
};

// One forward pass. Segments are documents: attention and positions start anew at each.
struct CalibrationWindow {
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> segment_lengths;  // sum: ids.size()
};

struct CalibrationData {
  std::vector<CalibrationWindow> windows;
  std::int64_t tokens = 0;  // ids in all windows
  // SHA-256 of the input files; of several, that of their digests in hexadecimal, one after another.
  std::string sha256;
};

// Repeatable for equal files and options. Throws Error{kInvalidArgument} that says how many tokens or
// documents there are when they do not fill the samples, when an id is beyond the tokenizer, and
// Error{kNotFound, kCorruptData} of the readers.
CalibrationData read_calibration(const Tokenizer& tokenizer, const CalibrationOptions& options);

}  // namespace grille::text
