// The safetensors format: 8 bytes of header length, a JSON header, then the tensors' bytes.
// https://huggingface.co/docs/safetensors; what a reader must check is in docs/formats.md.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "grille/checkpoint/mapped_file.h"
#include "grille/checkpoint/tensor_source.h"

namespace grille::checkpoint {

struct SafetensorsHeader {
  struct Entry {
    TensorInfo info;
    std::size_t offset = 0;  // from the start of the file
  };
  std::map<std::string, Entry> tensors;
  std::map<std::string, std::string> metadata;  // `__metadata__`
};

// Reads and checks the header of one file: lengths, nesting, keys, dtypes, sizes; tensors must fill the file
// without a gap or an overlap. `name` begins every message. Throws Error{kCorruptData}; Error{kUnsupported}
// for a dtype that the format has and this program has not.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& name);

// One file or several that share an index.
class SafetensorsSource final : public TensorSource {
 public:
  // A .safetensors file, or a directory with model.safetensors or with model.safetensors.index.json and the
  // files that it names. Reads headers only. Throws Error{kNotFound} for missing files, Error{kCorruptData}
  // where index and files disagree, and what parse_safetensors_header() throws.
  explicit SafetensorsSource(const std::filesystem::path& file_or_directory);
  // One file's bytes in memory that outlives the source.
  SafetensorsSource(std::span<const std::byte> memory, const std::string& name);

  const std::map<std::string, TensorInfo>& tensors() const override { return tensors_; }
  void read_rows(const std::string& name, std::int64_t begin, std::int64_t end,
                 std::span<std::byte> out) const override;
  std::string locate(const std::string& name) const override;
  std::int64_t file_bytes() const override;

  // `__metadata__` of the file, or of all files together (the first one wins).
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  struct Place {
    const MappedFile* file;
    std::size_t offset;
  };
  // Returns the names that the file holds.
  std::vector<std::string> add_file(std::unique_ptr<MappedFile> file);
  void add_indexed_files(const std::filesystem::path& index);

  std::filesystem::path path_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::map<std::string, TensorInfo> tensors_;
  std::map<std::string, Place> places_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace grille::checkpoint
