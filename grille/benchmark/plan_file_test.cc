#include "grille/benchmark/plan_file.h"

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "grille/base/error.h"
#include "grille/kernels/matmul_24_sm90_candidates.h"

namespace grille::benchmark {
namespace {

namespace fs = std::filesystem;

MeasuredPlan measured(std::int64_t m, double us = 7.25, DType dtype = DType::kFloat8E4M3) {
  const kernels::Matmul24Sm90Problem problem{
      .m = m, .n = 4096, .k = 4096, .dtype = dtype, .fast_accumulation = dtype == DType::kFloat8E4M3};
  return {.entry = {132, dtype, 4096, 4096, m, kernels::candidate_plans_24_sm90(problem, {}).back()},
          .us = us,
          .rule_us = 8.5};
}

PlanFile sample_file() {
  PlanFile file;
  file.device = "NVIDIA \"H200\" \xff";  // a name is quoted, and bytes that are no UTF-8 are replaced
  file.multiprocessors = 132;
  file.driver = "580.1";
  file.cuda = "13.0";
  file.version = "0.1.0";
  for (const std::int64_t m : {16, 64, 512}) file.plans.push_back(measured(m));
  file.plans.push_back(measured(64, 9, DType::kInt8));
  return file;
}

std::string content(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// A folder that is gone afterwards.
class BenchmarkPlanFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "grille_plans_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

void expect_refused(const std::string& text, const std::string& part) {
  try {
    parse_plan_file(text, "f.json");
    ADD_FAILURE() << part << " in " << text.substr(0, 200);
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_EQ(what.rfind("f.json", 0), 0u) << what;
    EXPECT_NE(what.find(part), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos);
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST_F(BenchmarkPlanFile, WhatIsWrittenIsRead) {
  const PlanFile file = sample_file();
  const PlanFile read = parse_plan_file(plan_file_text(file), "f.json");
  EXPECT_EQ(read.multiprocessors, 132);
  EXPECT_EQ(read.driver, file.driver);
  EXPECT_EQ(read.cuda, file.cuda);
  EXPECT_EQ(read.version, file.version);
  ASSERT_EQ(read.plans.size(), file.plans.size());
  for (std::size_t i = 0; i < read.plans.size(); ++i) {
    EXPECT_EQ(read.plans[i].entry, file.plans[i].entry);
    EXPECT_DOUBLE_EQ(read.plans[i].us, file.plans[i].us);
    EXPECT_DOUBLE_EQ(read.plans[i].rule_us, file.plans[i].rule_us);
  }
  EXPECT_EQ(plan_file_text(read), plan_file_text(parse_plan_file(plan_file_text(read), "f.json")));
  const kernels::Matmul24PlanTable table = read.table();
  const kernels::Matmul24Sm90Problem problem{
      .m = 64, .n = 4096, .k = 4096, .dtype = DType::kFloat8E4M3, .fast_accumulation = true};
  EXPECT_EQ(plan_matmul_24_sm90(problem, {}, &table), file.plans[1].entry.plan);
}

TEST_F(BenchmarkPlanFile, WhatIsNotAFileOfPlansIsRefusedInOneLine) {
  for (const std::string text : {"", "{", "[1,2", "nonsense", "\x89PNG\n"}) expect_refused(text, "not JSON");
  for (const std::string text : {"3", "[]", "null", "\"a\""}) expect_refused(text, "expected an object");
  for (const std::string text : {"{}", R"({"format":1})", R"({"points":[]})"})
    expect_refused(text, "its format is not");
  expect_refused(std::string(100000, '['), "not a file of plans");
  const std::string good = plan_file_text(sample_file());
  expect_refused(replaced(good, "\"version\": 1", "\"version\": 2"), "version 2");
  expect_refused(replaced(good, "\"multiprocessors\": 132", "\"multiprocessors\": 0"), "multiprocessors");
  expect_refused(replaced(good, "\"driver\": \"580.1\"", "\"driver\": 580.1"), "\"driver\" is not a text");
  expect_refused(replaced(good, "\"cuda\"", "\"coda\""), "there is no \"cuda\"");
}

TEST_F(BenchmarkPlanFile, APlanWithAWrongFigureIsNamed) {
  const std::string good = plan_file_text(sample_file());
  const auto with = [&](const std::string& key, const std::string& value) {
    const std::size_t at = good.find("\"" + key + "\":", good.find("\"plans\""));
    const std::size_t begin = good.find(':', at) + 1;
    return good.substr(0, begin) + value + good.substr(good.find_first_of(",}", begin));
  };
  for (const std::string key :
       {"n", "k", "m", "row_tile", "token_tile", "stages", "cluster", "group_rows", "clusters"}) {
    for (const std::string value : {"-1", "1e3", "2.5", "true", "\"8\"", "null", "99999999999",
                                    "18446744073709551615", "9223372036854775807", "1e400"}) {
      expect_refused(with(key, value), value == "1e400" ? "not a file of plans" : "plan 0: \"" + key + "\"");
    }
  }
  for (const std::string key : {"resident_x", "promote", "split"})
    expect_refused(with(key, "1"), "is not true or false");
  for (const std::string key : {"us", "rule_us"}) {
    for (const std::string value : {"-1", "1e30", "\"fast\"", "null"})
      expect_refused(with(key, value), "is not a time");
  }
  expect_refused(with("dtype", "\"float32\""), "dtype \"float32\"");
  expect_refused(with("kernel", "\"small\""), "kernel \"small\"");
  expect_refused(with("m", "64"), "two plans for");
}

// Any change of some bytes gives a file that is refused, or one that is written as it was read.
TEST_F(BenchmarkPlanFile, DamagedFilesAreRefusedOrRead) {
  const std::string good = plan_file_text(sample_file());
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (std::size_t j = 0; j <= random() % 3; ++j)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    if (i % 5 == 0) text.resize(random() % text.size());
    try {
      const PlanFile file = parse_plan_file(text, "f.json");
      EXPECT_NO_THROW(parse_plan_file(plan_file_text(file), "f.json"));
      const kernels::Matmul24PlanTable table = file.table();
      for (const MeasuredPlan& plan : file.plans) {
        const auto& e = plan.entry;
        EXPECT_NO_THROW(plan_matmul_24_sm90({.m = e.m, .n = e.n, .k = e.k, .dtype = e.dtype}, {}, &table));
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    }
  }
}

TEST_F(BenchmarkPlanFile, AFileThatIsNotThereOrIsAFolderOrEmptyIsAnError) {
  EXPECT_THROW(read_plan_file(folder_ / "none.json"), Error);
  EXPECT_THROW(read_plan_file(folder_), Error);
  EXPECT_THROW(read_plan_file("/dev/null"), Error);
  write(folder_ / "empty.json", "");
  EXPECT_THROW(read_plan_file(folder_ / "empty.json"), Error);
}

TEST_F(BenchmarkPlanFile, GrowsAndKeepsWhatItHad) {
  const fs::path path = folder_ / "h200.json";
  PlanFile header = sample_file();
  header.plans.clear();
  {
    GrowingPlanFile file(path);
    EXPECT_FALSE(fs::exists(path));
    file.begin(header);
    for (const std::int64_t m : {16, 64}) {
      file.add(measured(m));
      EXPECT_EQ(read_plan_file(path).plans.back().entry.m, m);
    }
  }
  header.driver = "581.0";
  GrowingPlanFile file(path);
  file.begin(parse_plan_file(plan_file_text(header), "header"));
  file.add(measured(64, 5.0));
  file.add(measured(512));
  const PlanFile read = read_plan_file(path);
  EXPECT_EQ(read.driver, "581.0");
  ASSERT_EQ(read.plans.size(), 3u);
  EXPECT_EQ(read.plans[0].entry.m, 16);
  EXPECT_EQ(read.plans[1].entry.m, 64);
  EXPECT_DOUBLE_EQ(read.plans[1].us, 5.0);
  EXPECT_EQ(read.plans[2].entry.m, 512);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(BenchmarkPlanFile, WhatIsNotOneIsNotOverwritten) {
  const fs::path path = folder_ / "linear.json";
  write(path, "{\"machine\": 1}\n");
  EXPECT_THROW(GrowingPlanFile{path}, Error);
  EXPECT_EQ(content(path), "{\"machine\": 1}\n");
  EXPECT_THROW(GrowingPlanFile{folder_}, Error);
}

TEST_F(BenchmarkPlanFile, AnotherDevicesPlansAreNotMixedIn) {
  const fs::path path = folder_ / "h200.json";
  write(path, plan_file_text(sample_file()));
  const std::string before = content(path);
  GrowingPlanFile file(path);
  PlanFile other;
  other.device = "NVIDIA H100 PCIe";
  other.multiprocessors = 114;
  try {
    file.begin(other);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("114"), std::string::npos);
  }
  EXPECT_EQ(content(path), before);
}

TEST_F(BenchmarkPlanFile, AFolderThatIsNotThereIsFoundBeforeAnythingIsMeasured) {
  GrowingPlanFile file(folder_ / "no" / "h200.json");
  EXPECT_THROW(file.begin(sample_file()), Error);
}

}  // namespace
}  // namespace grille::benchmark
