#include "grille/benchmark/report.h"

#include <gtest/gtest.h>

#include "grille/benchmark/sample_results.h"

namespace grille::benchmark {
namespace {

TEST(BenchmarkReport, JsonHasTheFiguresOfEveryPoint) {
  const nlohmann::json json = linear_json(testing::sample_results());
  ASSERT_EQ(json["points"].size(), 14u);
  const nlohmann::json& p = json["points"][0];
  EXPECT_EQ(p["format"], "2:4-fp8");
  EXPECT_EQ(p["m"], 16);
  EXPECT_EQ(p["k"], 4096);
  EXPECT_EQ(p["n"], 4096);
  EXPECT_DOUBLE_EQ(p["us"], 10.0);
  EXPECT_DOUBLE_EQ(p["us_warm"], 5.0);
  EXPECT_NEAR(p["tflops"], 2.0 * 16 * 4096 * 4096 / 10e-6 * 1e-12, 1e-9);
  const double bytes = 4096 * 4096 * 0.625 + 16 * 3 * 4096;
  EXPECT_NEAR(p["gbps"], bytes / 10e-6 * 1e-9, 1e-6);
  EXPECT_NEAR(p["limit_us"], bytes / 4.5e12 * 1e6, 1e-9);
  EXPECT_NEAR(p["of_byte_limit"], bytes / 4.5e12 / 10e-6, 1e-9);
  EXPECT_DOUBLE_EQ(p["versus"]["cublaslt-fp8-rowwise"], 4.0);
  EXPECT_DOUBLE_EQ(p["versus"]["cublaslt-fp8-best"], 2.0);
  EXPECT_FALSE(p["versus"].contains("2:4-fp8"));
}

TEST(BenchmarkReport, JsonHasTheSummary) {
  const nlohmann::json json = linear_json(testing::sample_results());
  EXPECT_DOUBLE_EQ(json["summary"]["2:4-fp8"]["cublaslt-fp8-tensorwise"]["arithmetic"], 6.5 / 4);
  EXPECT_DOUBLE_EQ(json["mean_layer_sum_us_m_up_to_64"]["2:4-fp8"], 20.0);
  EXPECT_DOUBLE_EQ(json["chains"][0]["us"], 18.5);
  EXPECT_EQ(json["machine"]["name"], "A & B");
  EXPECT_EQ(json["notes"].size(), 1u);
}

TEST(BenchmarkReport, AnUnknownFlopLimitIsNull) {
  LinearResults results = testing::sample_results();
  results.device.compute_capability = 120;
  EXPECT_TRUE(linear_json(results)["points"][0]["of_flop_limit"].is_null());
  EXPECT_NE(linear_table(results).find("      -"), std::string::npos);
}

TEST(BenchmarkReport, TheTableShowsPointsSumsRatiosAndWhatWasLeftOut) {
  const std::string table = linear_table(testing::sample_results());
  for (const char* part : {"m=16 a 4096x4096", "m=128 b 4096x8192", "2.00x", "18.50", "cublaslt-fp8-best",
                           "at m=16 a", "the library is <not> there", "stream <8 & more>"})
    EXPECT_NE(table.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace grille::benchmark
