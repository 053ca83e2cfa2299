#include "grille/checkpoint/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "grille/base/error.h"

namespace grille::checkpoint {
namespace {

// Closes the descriptor if the constructor throws.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  int take() { return std::exchange(value, -1); }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  // Not blocking: opening a pipe would wait for a writer.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  check(file.value >= 0 || errno != ENOENT, ErrorCode::kNotFound, "{}: no such file", path.string());
  check(file.value >= 0, ErrorCode::kInvalidArgument, "{}: cannot be opened: {}", path.string(),
        std::strerror(errno));
  struct stat status {};
  check(::fstat(file.value, &status) == 0 && S_ISREG(status.st_mode), ErrorCode::kNotFound,
        "{}: not a regular file", path.string());
  const std::size_t size = static_cast<std::size_t>(status.st_size);
  if (size > 0) {
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
    check(address != MAP_FAILED, ErrorCode::kInvalidArgument, "{}: cannot be mapped: {}", path.string(),
          std::strerror(errno));
    bytes_ = {static_cast<const std::byte*>(address), size};
  }
  descriptor_ = file.take();
}

MappedFile::MappedFile(std::span<const std::byte> memory, std::filesystem::path name)
    : path_(std::move(name)), bytes_(memory) {}

MappedFile::~MappedFile() {
  if (descriptor_ < 0) return;
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  ::close(descriptor_);
}

std::span<const std::byte> MappedFile::range(std::size_t offset, std::size_t size) const {
  if (descriptor_ >= 0) {
    struct stat status {};
    check(::fstat(descriptor_, &status) == 0 && static_cast<std::size_t>(status.st_size) >= bytes_.size(),
          ErrorCode::kCorruptData, "{}: was {} bytes long when it was opened and is {} now", path_.string(),
          bytes_.size(), status.st_size);
  }
  return bytes_.subspan(offset, size);
}

void MappedFile::release(std::size_t offset, std::size_t size) const {
  if (descriptor_ < 0 || size == 0) return;
  static const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = offset / page * page;  // the map itself starts on a page
  ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, offset + size - begin, MADV_DONTNEED);
}

}  // namespace grille::checkpoint
