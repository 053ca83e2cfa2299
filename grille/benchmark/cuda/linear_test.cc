// bench linear on a CUDA device.
#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <random>

#include <gtest/gtest.h>
#include <unistd.h>

#include "grille/base/error.h"
#include "grille/benchmark/cuda/library.h"
#include "grille/benchmark/cuda/random_data.h"
#include "grille/benchmark/cuda/reference.h"
#include "grille/benchmark/tune.h"
#include "grille/kernels/cuda/launch.h"

namespace grille::benchmark {
namespace {

using kernels::check_cuda;

TEST(BenchmarkLibrary, OneThatIsNotThereIsNamedInOneLine) {
  try {
    SharedLibrary("cuNothing", "libcunothing.so.1", ".");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_NE(std::string(error.what()).find("cuNothing: libcunothing.so.1"), std::string::npos);
  }
}

TEST(BenchmarkLibrary, AFunctionThatIsNotThereIsNamed) {
  const SharedLibrary library("the math library", "libm.so.6", ".");
  EXPECT_NE(library.function<double (*)(double)>("cos"), nullptr);
  try {
    library.function<void (*)()>("no_such_function");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no_such_function"), std::string::npos);
  }
}

class GpuBenchmark : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(GpuBenchmark, RandomWeightsAreNormalAndKeepTwoOfFour) {
  constexpr std::int64_t kCount = 1 << 16;
  const DeviceMemory memory(kCount);
  fill_normal(memory.data(), DType::kInt8, kCount, 25.0f, true, 7, nullptr);
  std::vector<std::int8_t> values(kCount);
  check_cuda(cudaMemcpy(values.data(), memory.data(), kCount, cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::array<int, 16> patterns{};
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); i += 4) {
    unsigned kept = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      kept |= static_cast<unsigned>(values[i + j] != 0) << j;
      sum += values[i + j];
    }
    ASSERT_LE(std::popcount(kept), 2);
    ++patterns[kept];
  }
  // 16384 groups over 6 patterns; 8 standard deviations of a count are about 300.
  for (const unsigned pattern : {3u, 5u, 9u, 6u, 10u, 12u}) EXPECT_NEAR(patterns[pattern], 16384 / 6.0, 320);
  EXPECT_NEAR(sum / kCount, 0, 8 * 25.0 / 256);  // 8 deviations of the mean
}

// y = x W^T of small integers, which is exact in fp32, computed here and given to the device.
TEST_F(GpuBenchmark, TheReferenceSeesAWrongAndAMissingEntry) {
  constexpr std::int64_t kM = 37, kK = 64, kN = 48;
  std::mt19937 random(3);
  std::vector<std::int8_t> x(kM * kK), w(kN * kK);
  for (auto* list : {&x, &w}) {
    for (auto& v : *list) v = static_cast<std::int8_t>(static_cast<int>(random() % 15) - 7);
  }
  std::vector<std::int32_t> y(kM * kN, 0);
  for (std::int64_t i = 0; i < kM * kN; ++i) {
    for (std::int64_t j = 0; j < kK; ++j)
      y[static_cast<std::size_t>(i)] +=
          x[static_cast<std::size_t>(i / kN * kK + j)] * w[static_cast<std::size_t>(i % kN * kK + j)];
  }
  const DeviceMemory dx(x.size()), dw(w.size()), dy(y.size() * 4);
  check_cuda(cudaMemcpy(dx.data(), x.data(), x.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  check_cuda(cudaMemcpy(dw.data(), w.data(), w.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  const Product product{{dx.data(), DType::kInt8, kM, kK, kK},
                        {dw.data(), DType::kInt8, kN, kK, kK},
                        {},
                        {},
                        {dy.data(), DType::kInt32, kM, kN, kN}};
  const Reference reference(product, 11, nullptr);
  const auto error_of = [&](const std::vector<std::int32_t>& given) {
    check_cuda(cudaMemcpy(dy.data(), given.data(), given.size() * 4, cudaMemcpyHostToDevice), "cudaMemcpy");
    return reference.error();
  };
  EXPECT_EQ(error_of(y), 0.0);
  for (const std::int64_t at :
       {std::int64_t{0}, kM * kN - 1}) {  // the first and the last token are always seen
    std::vector<std::int32_t> wrong = y;
    wrong[static_cast<std::size_t>(at)] += 1;
    EXPECT_GT(error_of(wrong), 1.0) << at;
  }
}

TEST_F(GpuBenchmark, MeasuresEveryContenderThatIsHere) {
  LinearRequest request;
  request.shapes = "2048x4096,4096x2048";  // smaller ones take thousands of weights to exceed the cache
  request.tokens = "1,17";
  request.seconds = 0.001;
  request.turns = 1;
  const LinearResults results = run_linear(linear_options(request), no_progress());
  EXPECT_GT(results.device.read_bytes_per_second, 1e10);
  EXPECT_GT(results.device.copy_bytes_per_second, 1e10);
  for (const LinearPoint& point : results.points) {
    EXPECT_GT(point.us, 0) << point.contender;
    EXPECT_GT(point.us_warm, 0) << point.contender;
    EXPECT_LE(point.error, 1) << point.contender;
    EXPECT_GT(point.candidates, 0) << point.contender;
  }
  // Whoever was asked for is measured at all 4 points, or a note says why not.
  for (const ContenderInfo& info : all_contenders()) {
    const auto measured = std::count_if(results.points.begin(), results.points.end(),
                                        [&](const LinearPoint& p) { return p.contender == info.name; });
    const bool noted = std::any_of(results.notes.begin(), results.notes.end(),
                                   [&](const std::string& note) { return note.rfind(info.name, 0) == 0; });
    EXPECT_TRUE(measured == 4 || noted) << info.name;
  }
}

// Tunes a layer, twice into the same file, and measures with what was found.
TEST_F(GpuBenchmark, TunesIntoAFileAndMeasuresWithIt) {
  LinearRequest request;
  request.shapes = "4096x2048";
  request.tokens = "1,17,130";
  request.formats = "2:4-fp8,2:4-bf16";
  request.baselines = "none";
  request.seconds = 0.001;
  request.turns = 1;
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("grille_tune_" + std::to_string(::getpid()) + ".json");
  std::filesystem::remove(path);
  try {
    for (int i = 0; i < 2; ++i) {
      GrowingPlanFile file(path);
      const TuneResults tuned = run_tune(linear_options(request), file, no_progress());
      ASSERT_EQ(tuned.points.size(), 6u);
      for (const TunedPoint& point : tuned.points) {
        EXPECT_EQ(point.wrong, 0) << point.format << " m " << point.m << " " << point.shape.name;
        EXPECT_EQ(point.refused, 0) << point.format << " m " << point.m << " " << point.shape.name;
        EXPECT_GT(point.best_us, 0);
      }
      EXPECT_TRUE(tuned.notes.empty()) << tuned.notes.front();
      EXPECT_EQ(read_plan_file(path).plans.size(), 6u);
    }
  } catch (const Error& error) {
    std::filesystem::remove(path);
    if (error.code() == ErrorCode::kUnsupported) GTEST_SKIP() << error.what();
    throw;
  }
  request.plans = path.string();
  const LinearResults results = run_linear(linear_options(request), no_progress());
  std::filesystem::remove(path);
  ASSERT_EQ(results.points.size(), 6u);
  for (const LinearPoint& point : results.points)
    EXPECT_NE(point.algorithm.find(", measured"), std::string::npos) << point.algorithm;
}

}  // namespace
}  // namespace grille::benchmark
