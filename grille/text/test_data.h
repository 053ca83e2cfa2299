// Test support: the shared test data where it is present, and small vocabularies that need none.
#pragma once

#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "grille/base/error.h"
#include "grille/text/ggml_vocabulary.h"
#include "grille/text/text_files.h"
#include "grille/text/tokenizer.h"

namespace grille::text::testing {

namespace fs = std::filesystem;

// ../shared/data beside the source tree, or GRILLE_SHARED_DATA.
inline fs::path shared_data() {
  if (const char* given = std::getenv("GRILLE_SHARED_DATA")) return given;
  return fs::path(GRILLE_SOURCE_DIR) / "../shared/data";
}

#define GRILLE_NEEDS_SHARED_DATA()                                                     \
  if (!std::filesystem::exists(::grille::text::testing::shared_data() / "tokenizers")) \
  GTEST_SKIP() << "needs the shared test data (../shared/data or GRILLE_SHARED_DATA)"

// gzread passes files that are not compressed through as they are.
inline std::string read_gzip(const fs::path& file) {
  const gzFile in = gzopen(file.c_str(), "rb");
  check(in != nullptr, ErrorCode::kNotFound, "{}: cannot be opened", file.string());
  std::string bytes;
  char piece[1 << 16];
  for (int got = 0; (got = gzread(in, piece, sizeof piece)) > 0;)
    bytes.append(piece, static_cast<std::size_t>(got));
  gzclose(in);
  return bytes;
}

inline nlohmann::json shared_json(const std::string& name) {
  return nlohmann::json::parse(read_gzip(shared_data() / name));
}

// A folder that lives as long as the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "grille_text_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }
  fs::path write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  fs::path path_;
};

// ../shared/data/tokenizers/<name>, its .gz files unpacked; each is loaded once a process.
inline const Tokenizer& shared_tokenizer(const std::string& name) {
  static std::map<std::string, Tokenizer> cache;
  const auto found = cache.find(name);
  if (found != cache.end()) return found->second;
  const TemporaryFolder folder;
  for (const auto& entry : fs::directory_iterator(shared_data() / "tokenizers" / name)) {
    const fs::path& file = entry.path();
    const fs::path target = file.extension() == ".gz" ? file.stem() : file.filename();
    folder.write(target.string(), read_gzip(file));
  }
  return cache.emplace(name, Tokenizer::from_directory(folder.path())).first->second;
}

inline std::string error_of(const auto& body, ErrorCode code) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

// GPT-2's names of the 256 bytes: printable Latin-1 as itself, the rest from U+0100 on.
inline std::string byte_token(int byte) {
  const auto printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174); };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// Bytes 0..255 are ids 0..255; then a few merges; then <s> and </s>.
inline GgmlVocabulary byte_vocabulary() {
  GgmlVocabulary v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) v.tokens.push_back(byte_token(byte));
  const std::string space = byte_token(' ');
  for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{
           {"t", "h"}, {"th", "e"}, {space, "the"}, {"l", "l"}, {"o", "w"}}) {
    v.merges.push_back(left + " " + right);
    v.tokens.push_back(left + right);
  }
  v.bos_id = static_cast<std::int64_t>(v.tokens.size());
  v.tokens.emplace_back("<s>");
  v.eos_id = static_cast<std::int64_t>(v.tokens.size());
  v.tokens.emplace_back("</s>");
  v.token_types.assign(v.tokens.size(), 1);
  v.token_types[static_cast<std::size_t>(*v.bos_id)] = 3;
  v.token_types[static_cast<std::size_t>(*v.eos_id)] = 3;
  return v;
}

}  // namespace grille::text::testing
