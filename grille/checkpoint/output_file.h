// Files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace grille::checkpoint {

// Writes go to `path`.partial; finish() makes it `path`. Whatever ends before that removes the partial file.
// Every failure to write is an Error{kNoSpace} that names the path and the reason.
class OutputFile {
 public:
  // Reserves `size` bytes on the disk where the file system can (0: no reservation), so that a full disk is
  // found now and not after hours of work. Throws Error{kInvalidArgument} where `path` is a folder, a device
  // or a pipe: the new file would take its name.
  explicit OutputFile(std::filesystem::path path, std::uint64_t size = 0);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // Everything is on the disk and under its name when this returns.
  void finish();

 private:
  [[noreturn]] void fail_write(int error) const;

  std::filesystem::path path_;
  std::filesystem::path partial_;
  int descriptor_ = -1;
};

// A whole file at once.
void write_file(const std::filesystem::path& path, std::string_view contents);

}  // namespace grille::checkpoint
