#include "grille/checkpoint/output_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "grille/base/error.h"

namespace grille::checkpoint {

OutputFile::OutputFile(std::filesystem::path path, std::uint64_t size)
    : path_(std::move(path)), partial_(path_.string() + ".partial") {
  std::error_code ignored;
  const bool free =
      !std::filesystem::exists(path_, ignored) || std::filesystem::is_regular_file(path_, ignored);
  check(free, ErrorCode::kInvalidArgument, "{}: is not a file, and would be replaced by one", path_.string());
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_write(errno);
  if (size == 0) return;
  const int result = ::fallocate(descriptor_, 0, 0, static_cast<off_t>(size));
  if (result == 0 || (errno != ENOSPC && errno != EDQUOT && errno != EFBIG))
    return;  // others: not supported here
  const int error = errno;
  ::close(descriptor_);
  ::unlink(partial_.c_str());
  fail(ErrorCode::kNoSpace, "{}: needs {} bytes: {}", path_.string(), size, std::strerror(error));
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(partial_.c_str());
}

void OutputFile::fail_write(int error) const {
  fail(ErrorCode::kNoSpace, "{}: cannot be written: {}", path_.string(), std::strerror(error));
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_write(errno);
    }
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::finish() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail_write(errno);  // EINVAL: a device
  const int closing = std::exchange(descriptor_, -1);
  int error = ::close(closing) == 0 ? 0 : errno;
  if (error == 0 && ::rename(partial_.c_str(), path_.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(partial_.c_str());
    fail_write(error);
  }
  // The new name must survive a power cut too.
  const std::filesystem::path parent = path_.has_parent_path() ? path_.parent_path() : ".";
  const int directory = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
}

void write_file(const std::filesystem::path& path, std::string_view contents) {
  OutputFile file(path);
  file.write_at(0, std::as_bytes(std::span(contents)));
  file.finish();
}

}  // namespace grille::checkpoint
