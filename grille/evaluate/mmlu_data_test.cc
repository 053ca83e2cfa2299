#include "grille/evaluate/mmlu_data.h"

#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::evaluate {
namespace {

namespace fs = std::filesystem;

std::string error_of(const auto& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(MmluSubjects, AreTheFiftySevenInTheirGroups) {
  std::map<std::string, int> groups;
  std::string before;
  for (const MmluSubjectName& subject : mmlu_subjects()) {
    EXPECT_LT(before, subject.name);
    before = subject.name;
    ++groups[subject.group];
  }
  EXPECT_EQ(groups, (std::map<std::string, int>{
                        {"humanities", 13}, {"other", 13}, {"social_sciences", 12}, {"stem", 19}}));
}

TEST(MmluSubjects, AreChosenByName) {
  EXPECT_EQ(select_mmlu_subjects("").size(), 57u);
  const auto chosen = select_mmlu_subjects("virology,anatomy");
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_STREQ(chosen[0].name, "virology");
  EXPECT_STREQ(chosen[0].group, "other");
  EXPECT_STREQ(chosen[1].name, "anatomy");
  for (const char* wrong : {"phrenology", "anatomy,", ",", "anatomy, virology"}) {
    EXPECT_NE(error_of([&] { select_mmlu_subjects(wrong); }).find("--subjects: '"), std::string::npos)
        << wrong;
  }
  EXPECT_NE(error_of([] { select_mmlu_subjects("anatomy,anatomy"); }).find("twice"), std::string::npos);
}

class MmluFiles : public testing::Test {
 protected:
  MmluFiles() {
    std::string name = (fs::temp_directory_path() / "grille_mmlu_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    fs::create_directories(folder_ / "dev");
    fs::create_directories(folder_ / "test");
    write("dev/anatomy_dev.csv", "d,1,2,3,4,B\n");
  }
  ~MmluFiles() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  MmluSubject read() const { return read_mmlu_subject(folder_, {"anatomy", "stem"}); }

  fs::path folder_;
};

TEST_F(MmluFiles, CellsAreAsTheyAre) {
  write("test/anatomy_test.csv", "\"Which, \"\"A\"\" or\nB? \", a,b ,\"c,\",None,D\r\nq,1,2,3,4,A");
  const MmluSubject subject = read();
  ASSERT_EQ(subject.dev.size(), 1u);
  EXPECT_EQ(subject.dev[0].answer, 1u);
  ASSERT_EQ(subject.test.size(), 2u);
  EXPECT_EQ(subject.test[0].question, "Which, \"A\" or\nB? ");
  EXPECT_EQ(subject.test[0].choices, (std::array<std::string, 4>{" a", "b ", "c,", "None"}));
  EXPECT_EQ(subject.test[0].answer, 3u);
  EXPECT_EQ(subject.test[1].answer, 0u);
}

TEST_F(MmluFiles, ErrorsNameFileAndLine) {
  EXPECT_NE(error_of([&] { read(); }).find("anatomy_test.csv: no such file"), std::string::npos);
  const auto refused = [&](const std::string& text, const std::string& says) {
    write("test/anatomy_test.csv", text);
    const std::string error = error_of([&] { read(); });
    EXPECT_NE(error.find("anatomy_test.csv: " + says), std::string::npos) << error;
  };
  refused("", "it has no questions");
  refused("q,1,2,3,4,A\n\"x\ny\",1,2,3,4\n",
          "line 2: expected a question, four choices and a letter, got 5 cells");
  refused("q,1,2,3,4,A\n\"x\ny\",1,2,3,4,A\nq,1,2,3,4,E\n", "line 4: the right choice is 'E'");
  refused("q,1,2,3,4,\n", "line 1: the right choice is ''");
  refused("q,1,2,3,4,A\n\"q,1,2,3,4,A\n", "line 2: a quoted field begins here");
  refused("q,1,2,\xff,4,A\n", "byte 6 is not UTF-8");
  fs::remove_all(folder_ / "dev");
  EXPECT_NE(error_of([&] { read(); }).find("no folder dev"), std::string::npos);
}

}  // namespace
}  // namespace grille::evaluate
