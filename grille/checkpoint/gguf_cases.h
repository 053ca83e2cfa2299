// For tests: GGUF files made by hand.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "grille/checkpoint/gguf.h"

namespace grille::checkpoint {

// Appends the pieces of a GGUF file; what the file claims (counts, lengths, offsets) is up to the caller.
class GgufBytes {
 public:
  template <typename T>
  GgufBytes& number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBytes& raw(const std::string& bytes) {
    text_ += bytes;
    return *this;
  }
  GgufBytes& string(const std::string& value) { return number<std::uint64_t>(value.size()).raw(value); }
  GgufBytes& head(std::uint64_t tensors, std::uint64_t values, std::uint32_t version = 3) {
    return raw("GGUF").number(version).number(tensors).number(values);
  }
  GgufBytes& key(const std::string& name, GgufValueType type) {
    return string(name).number(static_cast<std::uint32_t>(type));
  }
  GgufBytes& array(const std::string& name, GgufValueType type, std::uint64_t count) {
    return key(name, GgufValueType::kArray).number(static_cast<std::uint32_t>(type)).number(count);
  }
  GgufBytes& tensor(const std::string& name, const std::vector<std::uint64_t>& ne, std::uint32_t type,
                    std::uint64_t offset) {
    string(name).number(static_cast<std::uint32_t>(ne.size()));
    for (const std::uint64_t size : ne) number(size);
    return number(type).number(offset);
  }
  GgufBytes& pad(std::size_t alignment = 32) {
    text_.resize((text_.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// A small file with every kind of metadata and one tensor of every type that is read.
inline std::string sample_gguf() {
  using Type = GgufValueType;
  GgufBytes file;
  const std::vector<GgufType> types = {GgufType::kF32,  GgufType::kF16,  GgufType::kBF16, GgufType::kQ4_0,
                                       GgufType::kQ4_1, GgufType::kQ5_0, GgufType::kQ5_1, GgufType::kQ8_0,
                                       GgufType::kQ4_K, GgufType::kQ5_K, GgufType::kQ6_K};
  file.head(types.size(), 16);
  file.key("general.architecture", Type::kString).string("llama");
  file.key("u8", Type::kUInt8).number<std::uint8_t>(200);
  file.key("i8", Type::kInt8).number<std::int8_t>(-3);
  file.key("u16", Type::kUInt16).number<std::uint16_t>(60000);
  file.key("i16", Type::kInt16).number<std::int16_t>(-300);
  file.key("u32", Type::kUInt32).number<std::uint32_t>(4000000000u);
  file.key("i32", Type::kInt32).number<std::int32_t>(7);
  file.key("u64", Type::kUInt64).number<std::uint64_t>(1ull << 63);
  file.key("i64", Type::kInt64).number<std::int64_t>(-(1ll << 40));
  file.key("f32", Type::kFloat32).number(1.5f);
  file.key("f64", Type::kFloat64).number(0.1);
  file.key("yes", Type::kBool).number<std::uint8_t>(1);
  file.array("tokens", Type::kString, 3).string("a").string("").string("bc");
  file.array("scores", Type::kFloat32, 2).number(0.25f).number(-1.0f);
  file.array("types", Type::kInt32, 3).number(1).number(2).number(-3);
  file.array("none", Type::kUInt8, 0);
  std::uint64_t offset = 0;
  std::string data;
  for (const GgufType type : types) {
    const auto traits = *gguf_type_traits(static_cast<std::uint32_t>(type));
    const std::int64_t cols = std::max<std::int64_t>(traits.block_weights, 4);
    file.tensor(traits.name, {static_cast<std::uint64_t>(cols), 2}, static_cast<std::uint32_t>(type), offset);
    std::string bytes(static_cast<std::size_t>(2 * cols / traits.block_weights * traits.block_bytes), '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<char>(i * 37 % 60);  // no NaN among the halves
    data += bytes;
    data.resize((data.size() + 31) / 32 * 32, '\0');
    offset = data.size();
  }
  return file.pad().raw(data).text();
}

}  // namespace grille::checkpoint
