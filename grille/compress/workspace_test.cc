#include "grille/compress/workspace.h"

#include <gtest/gtest.h>

#include "grille/checkpoint/output_file.h"
#include "grille/checkpoint/scratch_directory.h"
#include "grille/text/text_files.h"

namespace grille::compress {
namespace {

namespace fs = std::filesystem;
using checkpoint::error_of;
using checkpoint::expect_contains;
using checkpoint::ScratchDirectory;

void finish_block(const Workspace& workspace, std::int64_t index) {
  checkpoint::write_file(workspace.part(index), "block");
}

TEST(Workspace, AppearsUnderItsNameOnlyWhenPublished) {
  const ScratchDirectory scratch;
  const fs::path out = scratch / "out";
  {
    Workspace workspace(scratch.path() / "out/", "options", false, false);
    EXPECT_EQ(workspace.partial(), scratch / "out.partial");
    finish_block(workspace, 0);
    workspace.write_file("config.json", "{}");
    EXPECT_FALSE(fs::exists(out));
    workspace.publish();
  }
  EXPECT_EQ(text::read_file(out / "config.json"), "{}");
  EXPECT_FALSE(fs::exists(out / "parts"));
  EXPECT_FALSE(fs::exists(out / "run.json"));
  EXPECT_FALSE(fs::exists(scratch / "out.partial"));
}

TEST(Workspace, KeepsFinishedBlocksAndNothingElse) {
  const ScratchDirectory scratch;
  {
    const Workspace workspace(scratch / "out", "options", false, false);
    checkpoint::write_file(workspace.part(-1), "frame");
  }
  EXPECT_FALSE(fs::exists(scratch / "out.partial"));
  {
    const Workspace workspace(scratch / "out", "options", false, false);
    finish_block(workspace, 3);
  }
  const Workspace again(scratch / "out", "options", true, false);
  EXPECT_EQ(text::read_file(again.part(3)), "block");
}

TEST(Workspace, ResumesOnlyTheSameRun) {
  const ScratchDirectory scratch;
  {
    const Workspace workspace(scratch / "out", "options", false, false);
    finish_block(workspace, 0);
  }
  const auto open = [&](const char* fingerprint, bool resume, bool overwrite) {
    return error_of([&] { Workspace(scratch / "out", fingerprint, resume, overwrite); });
  };
  expect_contains(open("options", false, false), "--resume");
  expect_contains(open("others", true, false), "other options");
  expect_contains(open("others", true, true), "other options");
  EXPECT_TRUE(fs::exists(scratch / "out.partial" / "parts" / "block-00000.safetensors"));
  EXPECT_EQ(open("others", false, true), "no error");  // starts anew
  EXPECT_FALSE(fs::exists(scratch / "out.partial"));
}

TEST(Workspace, ReplacesAFolderOnlyWhenToldAndOnlyAtTheEnd) {
  const ScratchDirectory scratch;
  fs::create_directory(scratch / "out");
  scratch.write("out/precious", "mine");
  expect_contains(error_of([&] { Workspace(scratch / "out", "o", false, false); }), "--overwrite");
  Workspace workspace(scratch / "out", "o", false, true);
  EXPECT_TRUE(fs::exists(scratch / "out" / "precious"));
  workspace.write_file("config.json", "{}");
  workspace.publish();
  EXPECT_FALSE(fs::exists(scratch / "out" / "precious"));
  EXPECT_TRUE(fs::exists(scratch / "out" / "config.json"));
  EXPECT_FALSE(fs::exists(scratch / "out.partial"));
}

TEST(Workspace, AnEmptyFolderIsTaken) {
  const ScratchDirectory scratch;
  fs::create_directory(scratch / "out");
  Workspace workspace(scratch / "out", "o", false, false);
  workspace.publish();
  EXPECT_TRUE(fs::is_directory(scratch / "out"));
}

TEST(CheckDirectory, RefusesPlacesThatCannotBeReplaced) {
  const ScratchDirectory scratch;
  const auto refusal = [](const fs::path& directory, const std::vector<fs::path>& kept = {}) {
    return error_of([&] { check_directory(directory, /*overwrite=*/true, kept); });
  };
  for (const char* name : {"", "/", ".", "..", "../..", "a/..", "./", "a/../.."})
    expect_contains(refusal(name), "expected the name of a new folder");
  expect_contains(refusal(fs::current_path()), "working directory");
  expect_contains(refusal(fs::current_path().parent_path()),
                  fs::current_path().parent_path() == "/" ? "name of a new folder" : "working directory");
  fs::create_directories(scratch / "models/source");
  expect_contains(refusal(scratch / "models", {scratch / "models/source"}), "models/source");
  EXPECT_EQ(refusal(scratch / "models/source", {scratch / "models/source"}), "no error");  // in place
  EXPECT_EQ(refusal(scratch / "models2", {scratch / "models/source"}), "no error");
}

TEST(Workspace, AFolderThatCannotBeMadeIsAnErrorThatNamesIt) {
  const ScratchDirectory scratch;
  scratch.write("file", "");
  expect_contains(error_of([&] { Workspace(scratch / "file/out", "o", false, false); }), "file/out.partial");
}

}  // namespace
}  // namespace grille::compress
