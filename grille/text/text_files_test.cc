#include "grille/text/text_files.h"

#include <gtest/gtest.h>

#include "grille/text/sha256.h"
#include "grille/text/test_data.h"
#include "grille/text/utf8.h"

namespace grille::text::testing {
namespace {

TEST(Sha256, GivesTheStandardsDigests) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, OfAFileIsThatOfItsBytes) {
  const TemporaryFolder folder;
  std::string bytes;
  for (int i = 0; i < 3'000'001; ++i) bytes.push_back(static_cast<char>(i * 31));
  EXPECT_EQ(sha256_of_file(folder.write("x", bytes)), sha256_hex(bytes));
  error_of([&] { sha256_of_file(folder.path() / "absent"); }, ErrorCode::kNotFound);
  error_of([&] { sha256_of_file(folder.path()); }, ErrorCode::kNotFound);
}

TEST(Utf8, TellsCompleteFromBroken) {
  EXPECT_TRUE(is_utf8("a é 你 😀"));
  EXPECT_EQ(scan_utf8("ab\xF0\x9F\x98").state, Utf8State::kIncomplete);
  EXPECT_EQ(scan_utf8("ab\xF0\x9F\x98").valid, 2u);
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                          "\xF5", "\xFF", "\xE2\x82y", "\xF0\x80\x80\x80"}) {
    EXPECT_EQ(scan_utf8(bad).state, Utf8State::kInvalid);
  }
}

TEST(WikiText, BlankLinesAreEmptyRows) {
  EXPECT_EQ(join_hf_wikitext(" \n = A = \n \n b\n"), "\n\n = A = \n\n\n\n\n b\n");
  EXPECT_EQ(join_hf_wikitext(""), "");
  EXPECT_EQ(join_hf_wikitext("a"), "a\n");
}

TEST(WikiText, JoinedTestSplitIsTheCorpusOfThePapers) {
  GRILLE_NEEDS_SHARED_DATA();
  const std::string joined = join_hf_wikitext(read_text_file(shared_data() / "wikitext-2/wiki.test.raw"));
  EXPECT_EQ(joined.size(), 1'296'370u);
  EXPECT_EQ(sha256_hex(joined), "696cca6b65a171b0a358a4be6732cdfdf2dd6164a32e20fd70e3c13fc4dfae83");
}

TEST(TextFiles, TextMustBeUtf8) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_text_file(folder.write("bom.txt", "\xEF\xBB\xBFhi")), "hi");
  EXPECT_NE(error_of([&] { read_text_file(folder.write("bad.txt", "ab\xff")); }, ErrorCode::kCorruptData)
                .find("byte 2"),
            std::string::npos);
  error_of([&] { read_text_file(folder.path() / "absent"); }, ErrorCode::kNotFound);
  error_of([&] { read_text_file(folder.path()); }, ErrorCode::kNotFound);
}

TEST(TextFiles, DocumentsAreTextsOrMessages) {
  const TemporaryFolder folder;
  const auto documents = read_documents(folder.write("d.jsonl",
                                                     "{\"text\": \"a\\nb\"}\r\n\n"
                                                     "{\"id\": 1, \"messages\": [{\"role\": \"user\"}]}"));
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[0].text, "a\nb");
  EXPECT_EQ(documents[1].conversation, R"({"id": 1, "messages": [{"role": "user"}]})");
  EXPECT_EQ(documents[1].line, 3);
  for (const char* bad : {"[1]", "{\"text\": 1}", "{\"messages\": []}", "{\"text\"", "x"}) {
    const fs::path file = folder.write("bad.jsonl", std::string("{\"text\": \"\"}\n") + bad);
    EXPECT_NE(error_of([&] { read_documents(file); }, ErrorCode::kCorruptData).find("line 2"),
              std::string::npos)
        << bad;
  }
  const std::string deep(1'000'000, '[');
  error_of([&] { read_documents(folder.write("deep.jsonl", deep)); }, ErrorCode::kCorruptData);
  // Closed, it is JSON; a copy of it would need the whole stack.
  const std::string closed = "{\"text\": " + deep + std::string(deep.size(), ']') + "}";
  error_of([&] { read_documents(folder.write("deep.jsonl", closed)); }, ErrorCode::kCorruptData);
}

TEST(TextFiles, ADeviceIsNoFile) {
  EXPECT_NE(error_of([] { read_file("/dev/zero"); }, ErrorCode::kInvalidArgument).find("/dev/zero"),
            std::string::npos);
}

TEST(TextFiles, TokenFilesAreLittleEndian) {
  const TemporaryFolder folder;
  using namespace std::string_literals;
  EXPECT_EQ(read_token_file(folder.write("a.u16", "\x01\x00\xff\xff"s)),
            (std::vector<std::int32_t>{1, 65535}));
  EXPECT_EQ(read_token_file(folder.write("a.u32", "\x01\x00\x01\x00"s)), (std::vector<std::int32_t>{65537}));
  error_of([&] { read_token_file(folder.write("b.u16", "abc")); }, ErrorCode::kCorruptData);
  error_of([&] { read_token_file(folder.write("b.u32", "\xff\xff\xff\xff")); }, ErrorCode::kCorruptData);
  error_of([&] { read_token_file(folder.write("b.bin", "ab")); }, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace grille::text::testing
