// `grille bench linear`: the speed of linear layers on a CUDA device, 2:4 against the best dense and sparse
// libraries, all measured in one run. docs/benchmarks.md explains the method.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grille/base/progress.h"
#include "grille/benchmark/contenders.h"
#include "grille/benchmark/points.h"
#include "grille/kernels/matmul_24_plan_table.h"

namespace grille::benchmark {

// What a user types.
struct LinearRequest {
  std::string model = "llama-3-8b";
  std::string shapes;  // takes the place of the model's when given
  std::string tokens = "1,16,32,64,128,256,512";
  std::string formats = "all";
  std::string baselines = "matching";  // those of the formats' types
  double seconds = 0.05;
  int turns = 5;
  std::string plans;  // a file of measured plans, or "none"; empty: the built-in ones
  std::string tune;   // a file that measured plans are added to: nothing else is measured then
};

struct LinearOptions {
  std::vector<LayerShape> layers;
  bool chain = false;  // the layers are a model's block and also run as one graph
  std::vector<std::int64_t> tokens;
  std::vector<std::string> formats;
  std::vector<std::string> baselines;
  double seconds = 0.05;  // measuring time a contender, point and column
  int turns = 5;          // in so many turns, between which the others run
  std::uint64_t seed = 0;
  int device = 0;
  std::shared_ptr<const kernels::Matmul24PlanTable> plans;  // null: the built-in ones
};

// Throws Error{kInvalidArgument} for what cannot be measured, in one line.
LinearOptions linear_options(const LinearRequest& request);

// One contender at one point.
struct LinearPoint {
  std::string contender;
  LayerShape shape;
  std::int64_t m = 0;
  double us = 0;            // median; every weight read from memory
  double us_warm = 0;       // median; one weight again and again, in the cache where it fits
  double bytes = 0;         // that must move at least: weight with metadata and scales, x, y
  double weight_bytes = 0;  // of them, the weight's
  std::string algorithm;    // the candidate that won
  int candidates = 0;       // that ran and were right
  int wrong = 0;            // that ran and were wrong
  int refused = 0;          // that the library did not accept or did not run
  double error = 0;         // the winner's largest error, as a part of the tolerance

  double flops() const;  // of the dense product
};

// The layers of a block, one after the other in one graph.
struct LinearChain {
  std::string contender;
  std::int64_t m = 0;
  double us = 0;
};

struct DeviceRecord {
  std::string name;
  int compute_capability = 0;  // 10 * major + minor
  int multiprocessors = 0;
  std::int64_t l2_bytes = 0;
  double read_bytes_per_second = 0;  // measured
  double copy_bytes_per_second = 0;  // measured; bytes read plus bytes written
  std::string driver;
  std::string cuda_runtime;
  std::string cublaslt;  // versions; empty: not there, or not asked for
  std::string cusparselt;
  double sm_mhz_max = 0;  // 0: unknown
  double sm_mhz = 0;      // under load, median over the run
  double power_limit_watts = 0;
};

struct LinearResults {
  DeviceRecord device;
  std::vector<LinearPoint> points;
  std::vector<LinearChain> chains;
  std::vector<std::string> notes;  // what was asked for and could not be measured, and why
};

// Dense-equivalent flop/s that the tensor cores reach at the vendor's boost clock; 2:4 counts twice. 0: not
// known for this device.
double flop_limit(const DeviceRecord& device, DType dtype, bool sparse);

// Seconds that `point` takes at least: its bytes at the measured bandwidth (the better of read and copy), or
// its flops at the limit.
double byte_limit_us(const DeviceRecord& device, const LinearPoint& point);
double flop_limit_us(const DeviceRecord& device, const LinearPoint& point);  // 0: unknown

// Throws Error{kUnsupported} in a build without CUDA or on a machine without a device, Error{kDevice} if CUDA
// fails. Takes device memory for three L2 caches a contender and layer, plus the largest weight.
LinearResults run_linear(const LinearOptions& options, Progress& progress);

}  // namespace grille::benchmark
