#include "grille/text/csv.h"

#include <random>

#include <gtest/gtest.h>

#include "grille/text/test_data.h"

namespace grille::text::testing {
namespace {

using Fields = std::vector<std::string>;

std::vector<Fields> fields_of(std::string_view text) {
  std::vector<Fields> rows;
  for (const CsvRow& row : parse_csv(text, "x.csv")) rows.push_back(row.fields);
  return rows;
}

TEST(Csv, RowsEndWithALineOrTheText) {
  EXPECT_EQ(fields_of("a,b\nc,d"), (std::vector<Fields>{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(fields_of("a,b\r\nc,d\r\n"), (std::vector<Fields>{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(fields_of("\n\r\na\n\n"), (std::vector<Fields>{{"a"}}));
  EXPECT_EQ(fields_of(",\n"), (std::vector<Fields>{{"", ""}}));
  EXPECT_EQ(fields_of(""), std::vector<Fields>{});
  EXPECT_EQ(fields_of("a\rb,\r"), (std::vector<Fields>{{"a\rb", "\r"}}));  // only \n and \r\n end a line
}

TEST(Csv, QuotedFieldsHoldCommasLinesAndQuotes) {
  EXPECT_EQ(fields_of("\"a,b\",\"c\nd\",\"e\r\nf\"\n"), (std::vector<Fields>{{"a,b", "c\nd", "e\r\nf"}}));
  EXPECT_EQ(fields_of("\"say \"\"hi\"\"\",\"\",\"\"\"\""), (std::vector<Fields>{{"say \"hi\"", "", "\""}}));
  EXPECT_EQ(fields_of("5\" pipe, \"x\"\n"), (std::vector<Fields>{{"5\" pipe", " \"x\""}}));
}

TEST(Csv, RowsKnowTheirLine) {
  const std::vector<CsvRow> rows = parse_csv("a\n\n\"b\n\n\",\"c\n\"\r\nd", "x.csv");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].line, 1);
  EXPECT_EQ(rows[1].line, 3);
  EXPECT_EQ(rows[2].line, 7);
}

TEST(Csv, ErrorsNameFileAndLine) {
  const std::string open = error_of([] { parse_csv("a\nb,\"c\nd\n", "x.csv"); }, ErrorCode::kCorruptData);
  EXPECT_NE(open.find("x.csv: line 2"), std::string::npos) << open;
  const std::string behind =
      error_of([] { parse_csv("a\n\"b\nc\"d,e\n", "x.csv"); }, ErrorCode::kCorruptData);
  EXPECT_NE(behind.find("x.csv: line 3"), std::string::npos) << behind;
}

TEST(Csv, WhatIsWrittenQuotedIsReadBack) {
  std::mt19937 random(0);
  const std::string alphabet = "ab,\"\n\r x";
  const auto below = [&](std::size_t limit) { return random() % limit; };
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<Fields> rows(1 + below(4));
    std::string text;
    for (Fields& row : rows) {
      row.resize(1 + below(4));
      for (std::size_t i = 0; i < row.size(); ++i) {
        for (std::size_t length = below(6); length > 0; --length) row[i] += alphabet[below(alphabet.size())];
        text += i > 0 ? ",\"" : "\"";
        for (const char c : row[i]) text += c == '"' ? std::string("\"\"") : std::string(1, c);
        text += '"';
      }
      text += below(2) == 0 ? "\n" : "\r\n";
    }
    EXPECT_EQ(fields_of(text), rows) << text;
  }
}

}  // namespace
}  // namespace grille::text::testing
