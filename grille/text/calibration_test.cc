#include "grille/text/calibration.h"

#include <gtest/gtest.h>

#include <numeric>

#include "grille/text/sha256.h"
#include "grille/text/test_data.h"

namespace grille::text::testing {
namespace {

using Ids = std::vector<std::int32_t>;

Tokenizer tokenizer_with_template() {
  GgmlVocabulary v = byte_vocabulary();
  v.chat_template = "{% for m in messages %}<s>{{ m.role[0] }}{{ m.content }}</s>{% endfor %}";
  return tokenizer_of(v);
}

std::string u16(const Ids& ids) {
  std::string bytes;
  for (const std::int32_t id : ids) bytes += {static_cast<char>(id & 255), static_cast<char>(id >> 8)};
  return bytes;
}

std::string error_in(const CalibrationOptions& options, ErrorCode code = ErrorCode::kInvalidArgument) {
  return error_of([&] { read_calibration(tokenizer_with_template(), options); }, code);
}

TEST(Calibration, TokenFilesGiveConsecutiveWindows) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("c.u16", u16({1, 2, 3, 4, 5, 6, 7}));
  const auto data = read_calibration(tokenizer_with_template(), {{file}, 2, 3, 0});
  ASSERT_EQ(data.windows.size(), 2u);
  EXPECT_EQ(data.windows[0].ids, (Ids{1, 2, 3}));
  EXPECT_EQ(data.windows[1].ids, (Ids{4, 5, 6}));
  EXPECT_EQ(data.windows[1].segment_lengths, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(data.tokens, 6);
  EXPECT_EQ(data.sha256, sha256_of_file(file));
  const std::string message = error_in({{file}, 3, 3, 0});
  EXPECT_NE(message.find("7 tokens"), std::string::npos) << message;
  EXPECT_NE(error_in({{folder.write("d.u16", u16({1, 300, 2}))}, 1, 3, 0}).find("token 1 is 300"),
            std::string::npos);
}

TEST(Calibration, SharedCalibrationIdsAreTheirWindows) {
  GRILLE_NEEDS_SHARED_DATA();
  const TemporaryFolder folder;
  const std::string bytes = read_file(shared_data() / "models/smollm2-135m/calibration_128x2048.bin");
  const fs::path file = folder.write("calibration.u16", bytes);
  const auto data = read_calibration(shared_tokenizer("smollm2-135m"), {{file}, 128, 2048, 0});
  EXPECT_EQ(data.tokens, 128 * 2048);
  EXPECT_EQ(data.windows[127].ids.size(), 2048u);
  EXPECT_EQ(data.sha256, "77043ad15194943c3e5a7fdab533b48b65b3717eff6aa3c03f2632aecc84666f");
}

TEST(Calibration, TextGivesSeededWindowsOfTheWholeText) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>('A' + i % 26);
  const fs::path file = folder.write("c.txt", text);
  const Tokenizer tokenizer = tokenizer_with_template();
  const auto first = read_calibration(tokenizer, {{file}, 20, 50, 1});
  const auto again = read_calibration(tokenizer, {{file}, 20, 50, 1});
  const auto other = read_calibration(tokenizer, {{file}, 20, 50, 2});
  ASSERT_EQ(first.windows.size(), 20u);
  int differ = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(first.windows[i].ids, again.windows[i].ids);
    differ += first.windows[i].ids != other.windows[i].ids;
    EXPECT_NE(text.find(tokenizer.decode(first.windows[i].ids)), std::string::npos);
  }
  EXPECT_GT(differ, 10);
  EXPECT_NE(error_in({{file}, 1, 301, 0}).find("300 tokens"), std::string::npos);
}

TEST(Calibration, DocumentsAreTruncatedAndPacked) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("c.jsonl", R"({"text": "aaaaaaaaaaaa"}
{"text": "bbb"}
{"text": ""}
{"messages": [{"role": "user", "content": "x"}]}
{"text": "cc"}
{"text": "ddddddd"})");
  const auto data = read_calibration(tokenizer_with_template(), {{file}, 3, 8, 0});
  ASSERT_EQ(data.windows.size(), 3u);
  EXPECT_EQ(data.windows[0].ids, Ids(8, 'a'));
  EXPECT_EQ(data.windows[1].ids, (Ids{'b', 'b', 'b', 261, 'u', 'x', 262}));
  EXPECT_EQ(data.windows[1].segment_lengths, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(data.windows[2].ids, (Ids{'c', 'c'}));
  EXPECT_EQ(data.tokens, 17);
  const std::string message = error_in({{file}, 9, 8, 0});
  EXPECT_NE(message.find("6 documents with 24 tokens fill 4 windows"), std::string::npos) << message;
}

TEST(Calibration, ErrorsInATemplateNameTheLine) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("c.jsonl", "{\"text\": \"a\"}\n{\"messages\": [{\"content\": \"x\"}]}");
  EXPECT_NE(error_in({{file}, 1, 8, 0}).find("line 2"), std::string::npos);
}

TEST(Calibration, SeveralFilesShareTheSamples) {
  const TemporaryFolder folder;
  const fs::path a = folder.write("a.u16", u16({1, 2, 3, 4}));
  const fs::path b = folder.write("b.u32", std::string("\x09\0\0\0\x08\0\0\0", 8));
  const auto data = read_calibration(tokenizer_with_template(), {{a, b}, 3, 2, 0});
  ASSERT_EQ(data.windows.size(), 3u);
  EXPECT_EQ(data.windows[1].ids, (Ids{3, 4}));
  EXPECT_EQ(data.windows[2].ids, (Ids{9, 8}));
  EXPECT_EQ(data.sha256, sha256_hex(sha256_of_file(a) + sha256_of_file(b)));
}

TEST(Calibration, BadOptionsAreErrors) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("c.txt", "");
  error_in({{}, 1, 1, 0});
  error_in({{file}, 0, 1, 0});
  error_in({{file}, 1, 0, 0});
  EXPECT_NE(error_in({{file}, 1, 4, 0}).find("0 tokens"), std::string::npos);
  error_in({{folder.path() / "absent.txt"}, 1, 4, 0}, ErrorCode::kNotFound);
  error_in({{folder.write("c.jsonl", "")}, 1, 4, 0});
}

}  // namespace
}  // namespace grille::text::testing
