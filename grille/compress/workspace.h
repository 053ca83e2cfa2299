// The folder of a run: DIR.partial while it works, DIR when it is complete.
#pragma once

#include <filesystem>
#include <string>

namespace grille::compress {

class Workspace {
 public:
  // `fingerprint` describes everything that the result depends on; unfinished work of another fingerprint
  // is not continued. Throws Error{kInvalidArgument} when `directory` is not empty and overwrite is off, when
  // there is unfinished work and resume is off (unless overwrite), or when it was made with other options.
  Workspace(std::filesystem::path directory, const std::string& fingerprint, bool resume, bool overwrite);

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
};

}  // namespace grille::compress
