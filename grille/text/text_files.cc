#include "grille/text/text_files.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include <nlohmann/json.hpp>

#include "grille/base/error.h"
#include "grille/text/bounded_json.h"
#include "grille/text/utf8.h"

namespace grille::text {

namespace fs = std::filesystem;

std::string read_file(const fs::path& file) {
  std::error_code none;
  check(fs::exists(file, none), ErrorCode::kNotFound, "{}: no such file", file.string());
  check(!fs::is_directory(file, none), ErrorCode::kNotFound, "{}: is a directory, not a file", file.string());
  // It may have no end.
  check(!fs::is_character_file(file, none), ErrorCode::kInvalidArgument, "{}: is a device, not a file",
        file.string());
  std::ifstream in(file, std::ios::binary);
  check(in.good(), ErrorCode::kNotFound, "{}: cannot be opened", file.string());
  std::string bytes;
  const auto size = fs::file_size(file, none);
  if (!none) bytes.reserve(size);
  bytes.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  check(!in.bad(), ErrorCode::kNotFound, "{}: a read failed", file.string());
  return bytes;
}

std::string read_text_file(const fs::path& file) {
  std::string text = read_file(file);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  const Utf8Scan scan = scan_utf8(text);
  check(scan.state == Utf8State::kValid, ErrorCode::kCorruptData, "{}: byte {} is not UTF-8", file.string(),
        scan.valid);
  return text;
}

std::string join_hf_wikitext(std::string_view text) {
  std::string joined;
  joined.reserve(text.size() + text.size() / 64);
  bool first = true;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!first) joined += "\n\n";
    first = false;
    if (line.find_first_not_of(" \t\r\v\f") != std::string_view::npos) {
      joined += line;
      joined += '\n';
    }
  }
  return joined;
}

namespace {

using Json = nlohmann::json;

Document read_document(std::string_view line, const fs::path& file, std::int64_t number) {
  const Json object = parse_bounded(line);
  check(object.is_object(), ErrorCode::kCorruptData, "{}: line {} is not a JSON object", file.string(),
        number);
  Document document;
  document.line = number;
  if (const auto text = object.find("text"); text != object.end() && text->is_string()) {
    document.text = text->get<std::string>();
    return document;
  }
  const auto messages = object.find("messages");
  check(messages != object.end() && messages->is_array() && !messages->empty(), ErrorCode::kCorruptData,
        "{}: line {} has neither a string 'text' nor a list 'messages'", file.string(), number);
  document.conversation = line;
  return document;
}

}  // namespace

void for_each_line(const fs::path& file, const std::function<void(std::string_view, std::int64_t)>& read) {
  const std::string text = read_text_file(file);
  std::string_view rest = text;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) read(line, number);
  }
}

std::vector<Document> read_documents(const fs::path& file) {
  std::vector<Document> documents;
  for_each_line(file, [&](std::string_view line, std::int64_t number) {
    documents.push_back(read_document(line, file, number));
  });
  return documents;
}

bool is_token_file(const fs::path& file) { return file.extension() == ".u16" || file.extension() == ".u32"; }

std::vector<std::int32_t> read_token_file(const fs::path& file) {
  check(is_token_file(file), ErrorCode::kUnsupported, "{}: token files end in .u16 or .u32", file.string());
  const std::size_t width = file.extension() == ".u16" ? 2 : 4;
  const std::string bytes = read_file(file);
  check(bytes.size() % width == 0, ErrorCode::kCorruptData, "{}: {} bytes are no whole number of {}-byte ids",
        file.string(), bytes.size(), width);
  std::vector<std::int32_t> ids(bytes.size() / width);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::uint32_t id = 0;
    for (std::size_t b = 0; b < width; ++b) {
      id |= std::uint32_t{static_cast<std::uint8_t>(bytes[i * width + b])} << (8 * b);
    }
    check(id <= std::numeric_limits<std::int32_t>::max(), ErrorCode::kCorruptData,
          "{}: id {} at {} is too large", file.string(), id, i);
    ids[i] = static_cast<std::int32_t>(id);
  }
  return ids;
}

}  // namespace grille::text
