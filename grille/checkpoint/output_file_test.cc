#include "grille/checkpoint/output_file.h"

#include <fstream>
#include <span>
#include <sstream>

#include <gtest/gtest.h>

#include "grille/checkpoint/scratch_directory.h"

namespace grille::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(OutputFile, AppearsWholeUnderItsNameAtTheEnd) {
  const ScratchDirectory scratch;
  scratch.write("out", "old");
  OutputFile file(scratch / "out", 6);
  file.write_at(3, std::as_bytes(std::span("def", 3)));
  file.write_at(0, std::as_bytes(std::span("abc", 3)));
  EXPECT_EQ(contents(scratch / "out"), "old");
  file.finish();
  EXPECT_EQ(contents(scratch / "out"), "abcdef");
  EXPECT_FALSE(fs::exists(scratch / "out.partial"));
}

TEST(OutputFile, LeavesNothingWhenItIsNotFinished) {
  const ScratchDirectory scratch;
  { OutputFile file(scratch / "out", 1 << 16); }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(OutputFile, DoesNotTakeTheNameOfAFolderOrADevice) {
  const ScratchDirectory scratch;
  fs::create_directory(scratch / "folder");
  fs::create_symlink("/dev/null", scratch / "device");
  for (const char* name : {"folder", "device"}) {
    expect_contains(error_of([&] { write_file(scratch / name, "x"); }), "is not a file");
    EXPECT_FALSE(fs::is_regular_file(scratch / name));
    EXPECT_FALSE(fs::exists(scratch / (std::string(name) + ".partial")));
  }
}

TEST(OutputFile, NamesThePlaceThatCannotBeWritten) {
  const ScratchDirectory scratch;
  expect_contains(error_of([&] { write_file(scratch / "none/out", "x"); }), "none/out: cannot be written");
}

}  // namespace
}  // namespace grille::checkpoint
