// Readers of calibration and evaluation text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace grille::text {

// The bytes of a file. Throws Error{kNotFound} naming it.
std::string read_file(const std::filesystem::path& file);

// read_file for text: a byte-order mark is dropped. Throws Error{kCorruptData} with the offset of a
// byte that is not UTF-8.
std::string read_text_file(const std::filesystem::path& file);

// The text that the Hugging Face data set wikitext-2-raw-v1 gives when its rows are joined with "\n\n",
// which is what the scripts of GPTQ, SparseGPT and Wanda evaluate: a line of white space is an empty
// row, any other row keeps its newline.
std::string join_hf_wikitext(std::string_view text);

// Calls `read(line, number)` for each line of a text file that is not blank, numbers from 1. Throws what
// `read` and read_text_file throw.
void for_each_line(const std::filesystem::path& file,
                   const std::function<void(std::string_view line, std::int64_t number)>& read);

// One document of a JSONL file: `text`, or a conversation for the model's chat template.
struct Document {
  std::string text;
  std::string conversation;  // the line, an object with `messages`; "" when the document is a text
  std::int64_t line = 0;     // from 1
};

// One document a line; blank lines are skipped. Throws Error{kCorruptData} naming file and line for a
// line that is no object with a string `text` or a list `messages`.
std::vector<Document> read_documents(const std::filesystem::path& file);

// Little-endian ids: .u16 or .u32 by the file's extension. Throws Error{kUnsupported} for another
// extension, Error{kCorruptData} for half an id or one above 2^31 - 1.
std::vector<std::int32_t> read_token_file(const std::filesystem::path& file);
bool is_token_file(const std::filesystem::path& file);

}  // namespace grille::text
