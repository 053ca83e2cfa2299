// A file as read-only bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace grille::checkpoint {

// Bytes of a file, mapped, or of a buffer. Mapped pages belong to the page cache; release() gives them back
// after use, so that reading a checkpoint leaves one copy in memory: the reader's.
class MappedFile {
 public:
  // Throws Error{kNotFound} if the file is absent or is not a regular file, Error{kInvalidArgument} if it
  // cannot be read.
  explicit MappedFile(const std::filesystem::path& path);
  // A view of memory that outlives this object; release() does nothing.
  MappedFile(std::span<const std::byte> memory, std::filesystem::path name);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // The bytes [offset, offset + size). Throws Error{kCorruptData} if the file has been cut since it was
  // opened (touching the lost pages would end the process). The caller has checked the range.
  std::span<const std::byte> range(std::size_t offset, std::size_t size) const;
  // Lets go of the pages of a range.
  void release(std::size_t offset, std::size_t size) const;

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  int descriptor_ = -1;  // -1: memory
};

}  // namespace grille::checkpoint
