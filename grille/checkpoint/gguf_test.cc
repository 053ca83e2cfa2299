#include "grille/checkpoint/gguf.h"

#include <cmath>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "grille/base/float_bits.h"
#include "grille/checkpoint/gguf_cases.h"
#include "grille/checkpoint/scratch_directory.h"

namespace grille::checkpoint {
namespace {

using Type = GgufValueType;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string open_error(const std::string& contents) {
  return error_of([&] { GgufSource(bytes_of(contents), "f.gguf"); });
}

TEST(Gguf, ReadsMetadataOfEveryType) {
  const std::string file = sample_gguf();
  const GgufSource source(bytes_of(file), "f.gguf");
  const GgufMetadata& metadata = source.metadata();
  EXPECT_EQ(metadata.get_string("general.architecture"), "llama");
  EXPECT_EQ(metadata.get_uint("u8"), 200u);
  EXPECT_EQ(metadata.get_int("i8"), -3);
  EXPECT_EQ(metadata.get_uint("u16"), 60000u);
  EXPECT_EQ(metadata.get_int("i16"), -300);
  EXPECT_EQ(metadata.get_uint("u32"), 4000000000u);
  EXPECT_EQ(metadata.get_uint("i32"), 7u);
  EXPECT_EQ(metadata.get_uint("u64"), 1ull << 63);
  EXPECT_EQ(metadata.get_int("i64"), -(1ll << 40));
  EXPECT_EQ(metadata.get_float("f32"), 1.5);
  EXPECT_EQ(metadata.get_float("f64"), 0.1);
  EXPECT_EQ(metadata.get_float("i8"), -3.0);
  EXPECT_EQ(metadata.get_bool("yes"), true);
  EXPECT_EQ(metadata.get_string_array("tokens"), (std::vector<std::string>{"a", "", "bc"}));
  EXPECT_EQ(metadata.get_float_array("scores"), (std::vector<double>{0.25, -1.0}));
  EXPECT_EQ(metadata.get_int_array("types"), (std::vector<std::int64_t>{1, 2, -3}));
  EXPECT_EQ(metadata.get_int_array("none"), std::vector<std::int64_t>{});
  EXPECT_EQ(metadata.values().size(), 16u);
}

TEST(Gguf, AbsentKeysGiveNothingAndWrongTypesAreErrors) {
  const std::string file = sample_gguf();
  const GgufSource source(bytes_of(file), "f.gguf");
  const GgufMetadata& metadata = source.metadata();
  EXPECT_EQ(metadata.get_string("x"), std::nullopt);
  EXPECT_EQ(metadata.get_int_array("x"), std::nullopt);
  EXPECT_EQ(error_of([&] { metadata.get_uint("i8"); }),
            "corrupt data: f.gguf: metadata 'i8' is not a natural number");
  EXPECT_THROW(metadata.get_int("u64"), Error);
  EXPECT_THROW(metadata.get_int("f32"), Error);
  EXPECT_THROW(metadata.get_string("u8"), Error);
  EXPECT_THROW(metadata.get_bool("u8"), Error);
  EXPECT_THROW(metadata.get_float("yes"), Error);
  EXPECT_THROW(metadata.get_string("tokens"), Error);
  EXPECT_THROW(metadata.get_string_array("scores"), Error);
  EXPECT_THROW(metadata.get_int_array("scores"), Error);
  EXPECT_THROW(metadata.get_float_array("u8"), Error);
}

TEST(Gguf, ShapesAreRowsFirstAndRowsAreReadAlone) {
  const std::string file = sample_gguf();
  const GgufSource source(bytes_of(file), "f.gguf");
  EXPECT_EQ(source.tensors().size(), 11u);
  EXPECT_EQ(source.info("Q6_K").shape, (std::vector<std::int64_t>{2, 256}));
  EXPECT_EQ(source.info("Q6_K").dtype, DType::kFloat32);
  EXPECT_EQ(source.info("BF16").dtype, DType::kBFloat16);
  EXPECT_EQ(source.info("F16").dtype, DType::kFloat16);
  EXPECT_EQ(source.stored_type("Q5_1"), GgufType::kQ5_1);
  for (const auto& [name, info] : source.tensors()) {
    std::vector<std::byte> all(static_cast<std::size_t>(info.bytes));
    source.read(name, all);
    std::vector<std::byte> row(all.size() / 2);
    source.read_rows(name, 1, 2, row);
    EXPECT_EQ(std::memcmp(row.data(), all.data() + row.size(), row.size()), 0) << name;
  }
}

// The definitions, on one block each; tests/test_gguf.py compares random blocks with ggml's own.
TEST(GgufBlocks, FollowTheirDefinitions) {
  const std::uint16_t d = float_to_float16(-0.5f);
  const std::uint16_t m = float_to_float16(3.0f);
  std::vector<std::byte> q4_1(20, std::byte{0});
  std::memcpy(q4_1.data(), &d, 2);
  std::memcpy(q4_1.data() + 2, &m, 2);
  q4_1[4] = std::byte{0xa3};  // weight 0: 3, weight 16: 10
  float out[256];
  dequantize_gguf_block(GgufType::kQ4_1, q4_1.data(), reinterpret_cast<std::byte*>(out));
  EXPECT_EQ(out[0], 1.5f);
  EXPECT_EQ(out[16], -2.0f);
  EXPECT_EQ(out[1], 3.0f);

  std::vector<std::byte> q8_0(34, std::byte{0});
  std::memcpy(q8_0.data(), &d, 2);
  q8_0[2] = std::byte{0x80};
  dequantize_gguf_block(GgufType::kQ8_0, q8_0.data(), reinterpret_cast<std::byte*>(out));
  EXPECT_EQ(out[0], 64.0f);
  EXPECT_TRUE(std::signbit(out[1]));  // 0 times a negative scale, as ggml leaves it

  std::vector<std::byte> q5_0(22, std::byte{0});
  std::memcpy(q5_0.data(), &d, 2);
  q5_0[2] = std::byte{0x02};  // fifth bit of weight 1
  q5_0[6] = std::byte{0x10};  // weight 16: 1
  dequantize_gguf_block(GgufType::kQ5_0, q5_0.data(), reinterpret_cast<std::byte*>(out));
  EXPECT_EQ(out[0], 8.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_EQ(out[16], 7.5f);
}

TEST(Gguf, RefusesHostileFiles) {
  const auto tensor_file = [](const std::vector<std::uint64_t>& ne, std::uint32_t type, std::uint64_t offset,
                              std::size_t data) {
    return GgufBytes().head(1, 0).tensor("t", ne, type, offset).pad().raw(std::string(data, '\0')).text();
  };
  EXPECT_EQ(open_error(tensor_file({4, 2}, 0, 0, 32)), "no error");
  EXPECT_EQ(open_error(sample_gguf()), "no error");
  const std::uint64_t huge = ~0ull;
  struct Case {
    std::string file;
    const char* message;
  };
  const Case cases[] = {
      {"", "not a GGUF file"},
      {"GGML....", "not a GGUF file"},
      {GgufBytes().head(0, 0, 1).text(), "unsupported: f.gguf: GGUF version 1, expected 2 or 3"},
      {GgufBytes().head(0, 0, 0x03000000).text(), "big-endian"},
      {"GGUF\3", "in the middle of 'version'"},
      {GgufBytes().head(huge, 0).text(), "claims 0 metadata values and 18446744073709551615 tensors"},
      {GgufBytes().head(0, huge).text(), "claims 18446744073709551615 metadata values"},
      {GgufBytes().head(0, 1).number(huge).pad(64).text(), "a metadata key of 18446744073709551615 bytes"},
      {GgufBytes().head(0, 1).number<std::uint64_t>(0).pad(64).text(), "a metadata key of 0 bytes"},
      {GgufBytes().head(0, 1).key("\xff\xfe", Type::kUInt8).pad(64).text(), "is not UTF-8"},
      {GgufBytes().head(0, 1).key("a", Type::kString).number(huge).pad(64).text(), "in the middle of 'a'"},
      {GgufBytes().head(0, 1).key("a", static_cast<Type>(13)).pad(64).text(), "unknown type 13"},
      {GgufBytes().head(0, 1).array("a", Type::kArray, 1).pad(64).text(), "an array of arrays"},
      {GgufBytes().head(0, 1).array("a", Type::kUInt64, huge).pad(64).text(),
       "claims 18446744073709551615 values"},
      {GgufBytes().head(0, 1).array("a", Type::kString, huge / 8).pad(64).text(),
       "claims 2305843009213693951 strings"},
      {GgufBytes().head(0, 2).key("a", Type::kBool).number('1').key("a", Type::kBool).number('1').text(),
       "appears twice"},
      {GgufBytes().head(0, 1).key("general.alignment", Type::kUInt32).number(33).text(),
       "general.alignment is 33"},
      {GgufBytes().head(0, 1).key("general.alignment", Type::kUInt32).number(0).text(),
       "general.alignment is 0"},
      {GgufBytes().head(0, 1).key("general.alignment", Type::kUInt64).number(1ull << 63).text(),
       "general.alignment is"},
      {GgufBytes().head(0, 1).key("split.count", Type::kUInt16).number<std::uint16_t>(3).text(),
       "one of 3 parts"},
      {tensor_file({4, 2}, 0, 0, 31), "passes the end of the file"},
      {tensor_file({4, 2}, 0, huge - 31, 32), "passes the end of the file"},
      {tensor_file({4, 2}, 0, 16, 64), "not a multiple of 32"},
      {tensor_file({1, 1, 1, 1, 1}, 0, 0, 32), "has 5 dimensions"},
      {tensor_file({huge}, 0, 0, 32), "impossible shape"},
      {tensor_file({1ull << 40, 1ull << 40}, 0, 0, 32), "impossible shape"},
      {tensor_file({0, 1ull << 40, 1ull << 40}, 0, 0, 32), "impossible shape"},
      {tensor_file({33}, 3, 0, 64), "has rows of 33 weights; Q4_1 comes in blocks of 32"},
      {tensor_file({256}, 17, 0, 512), "unsupported: f.gguf: tensor 't' is IQ2_XS, which is not supported"},
      {tensor_file({256}, 99, 0, 512), "is type 99"},
      {GgufBytes()
           .head(2, 0)
           .tensor("a", {16}, 0, 0)
           .tensor("b", {8}, 0, 32)
           .pad()
           .raw(std::string(64, '\0'))
           .text(),
       "'b' overlaps"},
      {GgufBytes()
           .head(2, 0)
           .tensor("a", {8}, 0, 0)
           .tensor("a", {8}, 0, 32)
           .pad()
           .raw(std::string(64, '\0'))
           .text(),
       "'a' appears twice"},
  };
  for (const Case& c : cases) expect_contains(open_error(c.file), c.message);
}

TEST(Gguf, EveryTruncationIsAnError) {
  const std::string file = sample_gguf();
  for (std::size_t size = 0; size < file.size() - 31; ++size) {  // the last tensor may be followed by padding
    EXPECT_NE(open_error(file.substr(0, size)), "no error") << size;
  }
}

}  // namespace
}  // namespace grille::checkpoint
