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

// "out/" -> "out"
fs::path normal(const fs::path& directory) {
  const fs::path path = directory.lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

// Whether `inner` lies in `outer`, or is it.
bool is_within(const fs::path& inner, const fs::path& outer) {
  std::error_code error;
  const fs::path relative = fs::proximate(inner, outer, error);
  return !error && !relative.empty() && *relative.begin() != ".." && !relative.is_absolute();
}

}  // namespace

void check_directory(const fs::path& directory, bool overwrite, const std::vector<fs::path>& kept) {
  const fs::path path = normal(directory);
  const fs::path name = path.filename();
  check(!name.empty() && name != "." && name != "..", ErrorCode::kInvalidArgument,
        "-o {}: expected the name of a new folder", directory.string());
  check(overwrite || !has_entries(path), ErrorCode::kInvalidArgument,
        "{}: exists and is not empty; choose another name or give --overwrite", path.string());
  if (!fs::exists(path)) return;
  check(!is_within(fs::current_path(), path), ErrorCode::kInvalidArgument,
        "{}: holds the working directory and cannot be replaced", path.string());
  for (const fs::path& file : kept) {
    check(!is_within(file, path) || fs::equivalent(file, path), ErrorCode::kInvalidArgument,
          "{}: holds {} and cannot be replaced", path.string(), file.string());
  }
}

fs::path partial_directory(const fs::path& directory) {
  fs::path partial = normal(directory);
  partial += ".partial";
  return partial;
}

Workspace::Workspace(fs::path directory, const std::string& fingerprint, bool resume, bool overwrite)
    : directory_(normal(directory)), partial_(partial_directory(directory)), overwrite_(overwrite) {
  check_directory(directory, overwrite);
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

Workspace::~Workspace() {
  if (complete_) return;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(partial_ / kParts, ignored)) {
    if (entry.path().filename().string().starts_with("block-")) return;
  }
  fs::remove_all(partial_, ignored);
}

fs::path Workspace::part(std::int64_t index) const {
  const std::string name = index < 0 ? "frame.safetensors" : fmt::format("block-{:05}.safetensors", index);
  return partial_ / kParts / name;
}

void Workspace::write_file(const std::string& name, const std::string& contents) const {
  checkpoint::write_file(partial_ / name, contents);
}

void Workspace::publish() {
  complete_ = true;
  fs::remove_all(partial_ / kParts);
  fs::remove(partial_ / kFingerprintFile);
  std::error_code error;
  if (overwrite_) fs::remove_all(directory_, error);
  fs::rename(partial_, directory_, error);
  check(!error, ErrorCode::kNoSpace, "{}: could not be renamed to {}: {}", partial_.string(),
        directory_.string(), error.message());
}

}  // namespace grille::compress
