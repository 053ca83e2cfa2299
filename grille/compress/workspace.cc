#include "grille/compress/workspace.h"

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/checkpoint/output_file.h"
#include "grille/text/text_files.h"

namespace grille::compress {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFingerprintFile = "run.json";
constexpr const char* kParts = "parts";

bool has_entries(const fs::path& path) {
  return fs::exists(path) && !(fs::is_directory(path) && fs::is_empty(path));
}

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  check(!error, ErrorCode::kNoSpace, "{}: the folder cannot be made: {}", path.string(), error.message());
}

}  // namespace

Workspace::Workspace(fs::path directory, const std::string& fingerprint, bool resume, bool overwrite)
    : directory_(directory.lexically_normal()), overwrite_(overwrite) {
  if (!directory_.has_filename()) directory_ = directory_.parent_path();  // "out/" -> "out"
  check(!directory_.empty() && directory_ != "." && directory_ != "..", ErrorCode::kInvalidArgument,
        "-o {}: expected the name of a new folder", directory.string());
  partial_ = directory_;
  partial_ += ".partial";
  check(overwrite || !has_entries(directory_), ErrorCode::kInvalidArgument,
        "{}: exists and is not empty; choose another name or give --overwrite", directory_.string());
  if (fs::exists(partial_)) {
    const bool same = fs::exists(partial_ / kFingerprintFile) &&
                      text::read_file(partial_ / kFingerprintFile) == fingerprint;
    check(resume || overwrite, ErrorCode::kInvalidArgument,
          "{}: holds an unfinished run; continue it with --resume or start anew with --overwrite",
          partial_.string());
    check(!resume || same, ErrorCode::kInvalidArgument,
          "{}: holds an unfinished run with other options or another model; repeat them, or start anew with "
          "--overwrite and without --resume",
          partial_.string());
    if (!resume) fs::remove_all(partial_);
  }
  make_directories(partial_ / kParts);
  write_file(kFingerprintFile, fingerprint);
}

fs::path Workspace::part(std::int64_t index) const {
  const std::string name = index < 0 ? "frame.safetensors" : fmt::format("block-{:05}.safetensors", index);
  return partial_ / kParts / name;
}

void Workspace::write_file(const std::string& name, const std::string& contents) const {
  checkpoint::write_file(partial_ / name, contents);
}

void Workspace::publish() {
  fs::remove_all(partial_ / kParts);
  fs::remove(partial_ / kFingerprintFile);
  std::error_code error;
  if (overwrite_) fs::remove_all(directory_, error);
  fs::rename(partial_, directory_, error);
  check(!error, ErrorCode::kNoSpace, "{}: could not be renamed to {}: {}", partial_.string(),
        directory_.string(), error.message());
}

}  // namespace grille::compress
