#include "grille/benchmark/linear.h"

#include <algorithm>
#include <cmath>

#include "grille/base/error.h"
#include "grille/benchmark/plan_file.h"

namespace grille::benchmark {

LinearOptions linear_options(const LinearRequest& request) {
  LinearOptions options;
  options.chain = request.shapes.empty();
  options.layers = options.chain ? model_layers(request.model) : parse_shapes(request.shapes);
  options.tokens = parse_token_counts(request.tokens);
  options.formats = parse_choice(request.formats, format_names(), "--formats");
  options.baselines = request.baselines == "matching"
                          ? baselines_for(options.formats)
                          : parse_choice(request.baselines, baseline_names(), "--baselines");
  check(!options.formats.empty() || !options.baselines.empty(), ErrorCode::kInvalidArgument,
        "--formats none --baselines none: nothing is left to measure");
  check(std::isfinite(request.seconds) && request.seconds >= 0.001 && request.seconds <= 60,
        ErrorCode::kInvalidArgument, "--seconds: expected 0.001 to 60, got {}", request.seconds);
  check(request.turns >= 1 && request.turns <= 1000, ErrorCode::kInvalidArgument,
        "--turns: expected 1 to 1000, got {}", request.turns);
  options.seconds = request.seconds;
  options.turns = request.turns;
  check(request.tune.empty() || !options.formats.empty(), ErrorCode::kInvalidArgument,
        "--tune: no format is left to tune");
  check(request.tune.empty() || request.plans.empty(), ErrorCode::kInvalidArgument,
        "--tune tries all plans; --plans is for a run that measures with the plans of a file");
  if (request.plans == "none") {
    options.plans = std::make_shared<kernels::Matmul24PlanTable>();
  } else if (!request.plans.empty()) {
    options.plans = std::make_shared<kernels::Matmul24PlanTable>(read_plan_file(request.plans).table());
  }
  return options;
}

double LinearPoint::flops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(shape.k) * static_cast<double>(shape.n);
}

double flop_limit(const DeviceRecord& device, DType dtype, bool sparse) {
  // Dense flop a clock and multiprocessor, and the boost clock of the data sheet's figures: H100/H200 SXM
  // 989 TFLOP/s bf16, A100 312.
  double flop_16bit = 0, flop_8bit = 0, boost_hz = 0;
  if (device.compute_capability == 90) {
    flop_16bit = 4096, flop_8bit = 8192, boost_hz = 1.83e9;
  } else if (device.compute_capability == 80) {
    flop_16bit = 2048, flop_8bit = dtype == DType::kInt8 ? 4096 : 0, boost_hz = 1.41e9;
  }
  const double per_clock = dtype_size(dtype) == 1 ? flop_8bit : flop_16bit;
  return per_clock * device.multiprocessors * boost_hz * (sparse ? 2 : 1);
}

double byte_limit_us(const DeviceRecord& device, const LinearPoint& point) {
  return 1e6 * point.bytes / std::max(device.read_bytes_per_second, device.copy_bytes_per_second);
}

double flop_limit_us(const DeviceRecord& device, const LinearPoint& point) {
  const ContenderInfo& info = contender_info(point.contender);
  const double limit = flop_limit(device, info.dtype, info.sparse);
  return limit > 0 ? 1e6 * point.flops() / limit : 0;
}

}  // namespace grille::benchmark
