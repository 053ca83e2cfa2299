#include "grille/text/csv.h"

#include <algorithm>

#include "grille/base/error.h"
#include "grille/text/text_files.h"

namespace grille::text {
namespace {

class CsvParser {
 public:
  CsvParser(std::string_view text, const std::filesystem::path& file) : text_(text), file_(file) {}

  std::vector<CsvRow> parse() {
    std::vector<CsvRow> rows;
    while (at_ < text_.size()) {
      if (skip_line_end()) continue;
      rows.push_back(row());
    }
    return rows;
  }

 private:
  CsvRow row() {
    CsvRow row{{}, line_};
    for (;;) {
      row.fields.push_back(text_.substr(at_, 1) == "\"" ? quoted_field() : plain_field());
      if (text_.substr(at_, 1) != ",") break;
      ++at_;
    }
    skip_line_end();
    return row;
  }

  std::string plain_field() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',' && !at_line_end()) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string quoted_field() {
    const std::int64_t first_line = line_;
    std::string field;
    for (++at_;;) {
      const std::size_t quote = text_.find('"', at_);
      check(quote != std::string_view::npos, ErrorCode::kCorruptData,
            "{}: line {}: a quoted field begins here and does not end", file_.string(), first_line);
      const std::string_view piece = text_.substr(at_, quote - at_);
      field += piece;
      line_ += std::count(piece.begin(), piece.end(), '\n');
      at_ = quote + 1;
      if (text_.substr(at_, 1) != "\"") break;
      field += '"';
      ++at_;
    }
    check(at_ == text_.size() || text_[at_] == ',' || at_line_end(), ErrorCode::kCorruptData,
          "{}: line {}: text follows a quoted field; a quote within one is written twice", file_.string(),
          line_);
    return field;
  }

  bool at_line_end() const { return text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n"; }

  bool skip_line_end() {
    if (at_ == text_.size() || !at_line_end()) return false;
    at_ += text_[at_] == '\n' ? 1 : 2;
    ++line_;
    return true;
  }

  std::string_view text_;
  const std::filesystem::path& file_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace

std::vector<CsvRow> parse_csv(std::string_view text, const std::filesystem::path& file) {
  return CsvParser(text, file).parse();
}

std::vector<CsvRow> read_csv(const std::filesystem::path& file) {
  return parse_csv(read_text_file(file), file);
}

}  // namespace grille::text
