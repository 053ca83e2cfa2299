// GGUF, versions 2 and 3: the file format of llama.cpp.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "grille/checkpoint/gguf_blocks.h"
#include "grille/checkpoint/mapped_file.h"
#include "grille/checkpoint/tensor_source.h"

namespace grille::checkpoint {

// Numbers are the file's.
enum class GgufValueType : std::uint32_t {
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUInt64,
  kInt64,
  kFloat64,
};

// The key-value part. Values stay in the file and are decoded when asked for.
//
// An absent key gives nothing. A value of another type, or one that does not fit (a negative number as
// unsigned), is an Error{kCorruptData} that names file and key.
class GgufMetadata {
 public:
  struct Value {
    GgufValueType type;  // of an array: of its elements
    bool is_array = false;
    std::uint64_t count = 1;  // elements
    std::span<const std::byte> bytes;
  };

  explicit GgufMetadata(std::string file) : file_(std::move(file)) {}
  void add(std::string key, const Value& value) { values_.emplace(std::move(key), value); }

  const std::map<std::string, Value>& values() const { return values_; }
  bool has(const std::string& key) const { return values_.contains(key); }

  std::optional<std::string> get_string(const std::string& key) const;
  std::optional<std::uint64_t> get_uint(const std::string& key) const;  // any integer type
  std::optional<std::int64_t> get_int(const std::string& key) const;
  std::optional<double> get_float(const std::string& key) const;  // also from integers
  std::optional<bool> get_bool(const std::string& key) const;
  std::optional<std::vector<std::string>> get_string_array(const std::string& key) const;
  std::optional<std::vector<std::int64_t>> get_int_array(const std::string& key) const;
  std::optional<std::vector<double>> get_float_array(const std::string& key) const;

 private:
  const Value* find(const std::string& key, bool array) const;
  [[noreturn]] void fail_type(const std::string& key, const char* wanted) const;

  std::string file_;
  std::map<std::string, Value> values_;
};

struct GgufHeader {
  struct Entry {
    TensorInfo info;  // as read() gives it: rows first, dequantized
    GgufType type;
    std::size_t offset = 0;  // from the start of the file
    std::size_t bytes = 0;   // in the file
  };
  std::uint32_t version = 0;
  GgufMetadata metadata;
  std::map<std::string, Entry> tensors;
};

// Reads and checks everything but the tensors' bytes. `name` begins every message. The result points into
// `file`. Throws Error{kCorruptData}; Error{kUnsupported} for versions, byte orders, tensor types and split
// files that are not read.
GgufHeader parse_gguf_header(std::span<const std::byte> file, const std::string& name);

// Tensors as float32, or as stored for F32, F16 and BF16. Shapes are [rows, cols], the reverse of GGUF's
// order.
class GgufSource final : public TensorSource {
 public:
  explicit GgufSource(const std::filesystem::path& path);
  // Bytes in memory that outlives the source.
  GgufSource(std::span<const std::byte> memory, const std::string& name);

  const GgufMetadata& metadata() const { return header_.metadata; }
  // How a tensor is stored.
  GgufType stored_type(const std::string& name) const;

  const std::map<std::string, TensorInfo>& tensors() const override { return tensors_; }
  void read_rows(const std::string& name, std::int64_t begin, std::int64_t end,
                 std::span<std::byte> out) const override;
  std::string locate(const std::string& name) const override;
  std::int64_t file_bytes() const override { return static_cast<std::int64_t>(file_.bytes().size()); }

 private:
  MappedFile file_;
  GgufHeader header_;
  std::map<std::string, TensorInfo> tensors_;
};

}  // namespace grille::checkpoint
