#include "grille/benchmark/linear.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::benchmark {
namespace {

bool contains(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

TEST(BenchmarkLinear, TheDefaultIsThe28PointsOfLlama38B) {
  const LinearOptions options = linear_options({});
  EXPECT_EQ(options.layers.size() * options.tokens.size(), 28u);
  EXPECT_TRUE(options.chain);
  EXPECT_EQ(options.formats, format_names());
  EXPECT_EQ(options.baselines, baseline_names());
}

TEST(BenchmarkLinear, BaselinesFollowTheFormatsUnlessTheyAreNamed) {
  LinearRequest request;
  request.formats = "2:4-fp8";
  const std::vector<std::string> matching = linear_options(request).baselines;
  EXPECT_EQ(matching, (std::vector<std::string>{"cublaslt-bf16", "cublaslt-fp8-tensorwise",
                                                "cublaslt-fp8-rowwise", "cusparselt-fp8"}));
  request.baselines = "cusparselt-int8";
  EXPECT_EQ(linear_options(request).baselines, (std::vector<std::string>{"cusparselt-int8"}));
  request.baselines = "none";
  EXPECT_TRUE(linear_options(request).baselines.empty());
  request.formats = "none";
  request.baselines = "matching";
  EXPECT_EQ(linear_options(request).baselines, baseline_names());
}

TEST(BenchmarkLinear, AListOfShapesHasNoChain) {
  LinearRequest request;
  request.shapes = "64x128";
  const LinearOptions options = linear_options(request);
  EXPECT_FALSE(options.chain);
  ASSERT_EQ(options.layers.size(), 1u);
  EXPECT_EQ(options.layers[0].n, 128);
}

TEST(BenchmarkLinear, WhatCannotBeMeasuredIsRefusedInOneLine) {
  const auto refused = [](const LinearRequest& request, const std::string& part) {
    try {
      linear_options(request);
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  };
  LinearRequest request;
  request.model = "gpt-2";
  refused(request, "--model gpt-2");
  request = {};
  request.shapes = "4096";
  refused(request, "--shapes");
  request = {};
  request.tokens = "0";
  refused(request, "--m");
  request = {};
  request.formats = "2:4-fp4";
  refused(request, "--formats");
  request = {};
  request.baselines = "mkl";
  refused(request, "--baselines");
  request = {};
  request.formats = request.baselines = "none";
  refused(request, "nothing is left");
  request = {};
  request.formats = "none";
  request.tune = "t.json";
  refused(request, "--tune");
  request.formats = "all";
  request.plans = "none";
  refused(request, "--plans");
  for (const double seconds : {0.0, -1.0, 61.0, std::numeric_limits<double>::quiet_NaN()}) {
    request = {};
    request.seconds = seconds;
    refused(request, "--seconds");
  }
  request = {};
  request.turns = 0;
  refused(request, "--turns");
}

TEST(BenchmarkLinear, PlansAreTheBuiltInOnesUnlessAFileOrNoneIsAskedFor) {
  LinearRequest request;
  EXPECT_EQ(linear_options(request).plans, nullptr);
  request.plans = "none";
  ASSERT_NE(linear_options(request).plans, nullptr);
  EXPECT_TRUE(linear_options(request).plans->entries().empty());
  request.plans = "there/is/no/such/file.json";
  EXPECT_THROW(linear_options(request), Error);
}

TEST(BenchmarkLinear, EveryBaselineHasAnOwnNameAndSaysWhatItIs) {
  std::vector<std::string> seen;
  for (const ContenderInfo& info : all_contenders()) {
    EXPECT_FALSE(contains(seen, info.name)) << info.name;
    seen.push_back(info.name);
    EXPECT_EQ(&contender_info(info.name), &info);
    EXPECT_EQ(info.sparse, info.library != Library::kCublasLt) << info.name;
    EXPECT_EQ(contains(baseline_names(), info.name), info.baseline());
    EXPECT_EQ(contains(format_names(), info.name), !info.baseline());
  }
  EXPECT_THROW(contender_info("cublaslt"), Error);
}

TEST(BenchmarkLinear, LimitsOfAnH200AreThoseOfItsDataSheet) {
  DeviceRecord device;
  device.compute_capability = 90;
  device.multiprocessors = 132;
  // 989.4 TFLOP/s dense bf16; the sheet rounds to 989 and 1979.
  EXPECT_NEAR(flop_limit(device, DType::kBFloat16, false) * 1e-12, 989.4, 0.1);
  EXPECT_NEAR(flop_limit(device, DType::kFloat8E4M3, false) * 1e-12, 1978.9, 0.1);
  EXPECT_NEAR(flop_limit(device, DType::kInt8, true) * 1e-12, 3957.8, 0.1);
  device.compute_capability = 80;
  device.multiprocessors = 108;
  EXPECT_NEAR(flop_limit(device, DType::kFloat16, false) * 1e-12, 312, 0.2);
  EXPECT_EQ(flop_limit(device, DType::kFloat8E4M3, false), 0);
  device.compute_capability = 75;
  EXPECT_EQ(flop_limit(device, DType::kBFloat16, false), 0);
}

TEST(BenchmarkLinear, AProductTakesItsBytesAtTheBestBandwidthOrItsFlops) {
  DeviceRecord device;
  device.compute_capability = 90;
  device.multiprocessors = 132;
  device.read_bytes_per_second = 4e12;
  device.copy_bytes_per_second = 5e12;
  LinearPoint point;
  point.contender = "cublaslt-bf16";
  point.shape = {"a", 1000, 2000};
  point.m = 10;
  point.bytes = 1e7;
  EXPECT_DOUBLE_EQ(point.flops(), 4e7);
  EXPECT_DOUBLE_EQ(byte_limit_us(device, point), 2.0);
  EXPECT_NEAR(flop_limit_us(device, point), 4e7 / 989.4e6, 1e-4);
  device.compute_capability = 0;
  EXPECT_EQ(flop_limit_us(device, point), 0);
}

// Holds in a build without CUDA, on a machine without a GPU, and on one with some.
TEST(BenchmarkLinear, ADeviceThatIsNotThereIsRefusedInOneLine) {
  LinearOptions options = linear_options({});
  options.device = 999;
  try {
    run_linear(options, no_progress());
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kInvalidArgument);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace grille::benchmark
