// Writing a safetensors file whose tensors arrive piece by piece, in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "grille/checkpoint/output_file.h"
#include "grille/checkpoint/tensor_source.h"

namespace grille::checkpoint {

struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // rows first

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

class SafetensorsWriter {
 public:
  // Takes everything that the file will hold, so that the header can be written first. Larger element types
  // come first, then names in order, as in files that the reference library writes: every tensor is aligned
  // to its element. `metadata` always gets "format": "pt", which transformers asks for.
  // Throws Error{kInvalidArgument} for a repeated or impossible tensor, Error{kNoSpace} for a full disk.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                    std::map<std::string, std::string> metadata = {});

  // Every row once. Throws Error{kInvalidArgument} for an unknown name, wrong range or size, Error{kNoSpace}.
  void write(const std::string& name, std::span<const std::byte> bytes);
  void write_rows(const std::string& name, std::int64_t begin, std::int64_t end,
                  std::span<const std::byte> bytes);

  // Makes the file appear. Throws Error{kInternal} if something has not been written. Without finish() no
  // file is left.
  void finish();

  std::int64_t file_bytes() const { return file_bytes_; }

  // Bytes that a file with these tensors will have.
  static std::int64_t size_of(const std::vector<TensorSpec>& tensors,
                              std::map<std::string, std::string> metadata = {});

 private:
  struct Entry {
    TensorInfo info;
    std::uint64_t offset = 0;
    std::int64_t written = 0;  // bytes
  };
  std::map<std::string, Entry> entries_;
  std::int64_t file_bytes_ = 0;
  std::unique_ptr<OutputFile> file_;
};

}  // namespace grille::checkpoint
