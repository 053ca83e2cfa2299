// The folder of a run: DIR.partial while it works, DIR when it is complete.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace grille::compress {

// Throws Error{kInvalidArgument} unless a run may write to `directory`: a name that is not taken, or with
// `overwrite` a folder that holds neither the working directory nor anything in `kept`.
void check_directory(const std::filesystem::path& directory, bool overwrite,
                     const std::vector<std::filesystem::path>& kept = {});

// Where the unfinished work of a run to `directory` lies: "out/" -> "out.partial".
std::filesystem::path partial_directory(const std::filesystem::path& directory);

class Workspace {
 public:
  // `fingerprint` describes everything that the result depends on; unfinished work of another fingerprint
  // is not continued. Throws Error{kInvalidArgument} as check_directory does, when there is unfinished work
  // and resume is off (unless overwrite), or when it was made with other options.
  Workspace(std::filesystem::path directory, const std::string& fingerprint, bool resume, bool overwrite);
  // Removes an unfinished folder that holds no finished block: there is nothing to go on with.
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  const std::filesystem::path& partial() const { return partial_; }
  // File of block `index`, or of what belongs to no block (embedding, norm, head) for -1.
  std::filesystem::path part(std::int64_t index) const;
  // Writes a small file into the unfinished folder. Throws Error{kNoSpace}.
  void write_file(const std::string& name, const std::string& contents) const;
  // Removes the parts and gives the folder its final name.
  void publish();

 private:
  std::filesystem::path directory_;
  std::filesystem::path partial_;
  bool overwrite_;
  bool complete_ = false;
};

}  // namespace grille::compress
