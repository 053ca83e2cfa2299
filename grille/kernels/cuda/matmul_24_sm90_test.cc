// matmul_24_sm90 on a Hopper GPU, against the reference.
#include "grille/kernels/matmul_24_sm90.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/base/float_bits.h"
#include "grille/formats/fp8.h"
#include "grille/kernels/cuda/device_bytes.h"
#include "grille/kernels/matmul_reference.h"
#include "grille/kernels/reference_values.h"

namespace grille::kernels {
namespace {

using testing::DeviceBytes;

constexpr DType kDTypes[] = {DType::kFloat8E4M3, DType::kBFloat16, DType::kFloat16, DType::kInt8};

struct Case {
  DType dtype = DType::kBFloat16;
  std::int64_t m = 1, n = 128, k = 128;
  DType out = DType::kFloat32;
  bool bias = false;
  bool residual = false;
  bool integers = true;  // products and sums are exact
  std::int64_t x_padding = 0, y_padding = 0;
};

std::uint32_t encode(DType dtype, float value) {
  switch (dtype) {
    case DType::kBFloat16: return float_to_bfloat16(value);
    case DType::kFloat16: return float_to_float16(value);
    case DType::kFloat8E4M3: return formats::float_to_fp8(value);
    default: return static_cast<std::uint8_t>(static_cast<std::int8_t>(std::clamp(value, -127.0f, 127.0f)));
  }
}

// A whole problem on the host: inputs, the packed weight and what the reference makes of them.
class Problem {
 public:
  Problem(const Case& c, unsigned seed) : c_(c), random_(seed) {
    const auto size = static_cast<std::size_t>(dtype_size(c.dtype));
    x.resize(static_cast<std::size_t>(c.m * x_stride()) * size, 0x55);
    for (std::int64_t i = 0; i < c.m; ++i)
      for (std::int64_t j = 0; j < c.k; ++j) put(x, i * x_stride() + j, draw());
    make_weight();
    const bool scaled = size == 1;
    for (std::int64_t i = 0; i < c.m && scaled; ++i) x_scale.push_back(draw_scale());
    for (std::int64_t j = 0; j < c.n && scaled; ++j) weight_scale.push_back(draw_scale());
    for (std::int64_t j = 0; j < c.n && c.bias; ++j)
      bias.push_back(c.integers ? static_cast<float>(random_() % 9) - 4 : normal_(random_));
    y.resize(static_cast<std::size_t>(c.m * y_stride()) * dtype_size(c.out), 0x77);
    for (std::int64_t i = 0; i < c.m; ++i)
      for (std::int64_t j = 0; j < c.n; ++j)
        set_reference_value(c.out, y.data(), i * y_stride() + j,
                            c.integers ? static_cast<float>(random_() % 9) - 4 : normal_(random_));
    residual = y;
    expected = y;
    matmul_24_reference({{x.data(), c.dtype, c.m, c.k, x_stride()}, scaled ? x_scale.data() : nullptr},
                        {{values.data(), mask.data(), c.dtype, c.n, c.k, c.k / 2, mask_stride()},
                         scaled ? weight_scale.data() : nullptr,
                         c.bias ? bias.data() : nullptr},
                        {{expected.data(), c.out, c.m, c.n, y_stride()}, c.residual});
  }

  formats::TwoFourSm90Layout layout() const { return {c_.n, c_.k, static_cast<int>(dtype_size(c_.dtype))}; }
  std::int64_t x_stride() const { return c_.k + c_.x_padding; }
  std::int64_t y_stride() const { return c_.n + c_.y_padding; }
  std::int64_t mask_stride() const { return (c_.k + 7) / 8; }

  // Largest |difference| that rounding explains, for output (i, j). The sum's error is a random walk: k
  // terms, each off by eps of a partial sum that is at most |x| |w| in norm; the tensor cores keep at least
  // 13 bits of float8 sums and 22 of others. A factor of 8 for the tail of the walk. Then one rounding to the
  // output.
  double tolerance(std::int64_t i, std::int64_t j) const {
    double norms = 0;
    for (std::int64_t c = 0; c < c_.k; ++c) {
      const double product = static_cast<double>(reference_value(c_.dtype, x.data(), i * x_stride() + c)) *
                             dense[static_cast<std::size_t>(j * c_.k + c)];
      norms += product * product;
    }
    norms = std::sqrt(norms);
    if (!x_scale.empty()) norms *= std::abs(x_scale[static_cast<std::size_t>(i)]);
    if (!weight_scale.empty()) norms *= std::abs(weight_scale[static_cast<std::size_t>(j)]);
    const double eps = c_.dtype == DType::kFloat8E4M3 ? 0x1p-13 : 0x1p-22;
    const double out_eps = c_.out == DType::kBFloat16  ? 0x1p-8
                           : c_.out == DType::kFloat16 ? 0x1p-11
                                                       : 0x1p-23;
    const double value = std::abs(reference_value(c_.out, expected.data(), i * y_stride() + j));
    return 8 * eps * norms * std::sqrt(static_cast<double>(c_.k)) + 2 * out_eps * (value + 1);
  }

  const Case& c() const { return c_; }

  std::vector<std::uint8_t> x, values, mask, slabs, y, residual, expected;
  std::vector<float> x_scale, weight_scale, bias, dense;

 private:
  float draw() {
    return c_.integers ? static_cast<float>(random_() % 9) - 4
                       : normal_(random_) * (c_.dtype == DType::kInt8 ? 40.0f : 1.0f);
  }
  float draw_scale() {
    return c_.integers ? std::ldexp(1.0f, static_cast<int>(random_() % 3) - 1)
                       : 0.5f + 0.01f * static_cast<float>(random_() % 100);
  }

  void put(std::vector<std::uint8_t>& bytes, std::int64_t index, float value) {
    const std::uint32_t bits = encode(c_.dtype, value);
    const auto size = static_cast<std::int64_t>(dtype_size(c_.dtype));
    std::memcpy(bytes.data() + index * size, &bits, static_cast<std::size_t>(size));
  }

  // All six patterns; zeros of both signs among the kept values, so groups of one and of no non-zero too.
  void make_weight() {
    constexpr std::uint8_t kPairs[] = {0b0011, 0b0101, 0b1001, 0b0110, 0b1010, 0b1100};
    const std::int64_t groups = c_.n * (c_.k / 4);
    values.resize(static_cast<std::size_t>(c_.n * c_.k / 2) * dtype_size(c_.dtype));
    mask.resize(static_cast<std::size_t>(c_.n * mask_stride()), 0);
    dense.resize(static_cast<std::size_t>(c_.n * c_.k), 0.0f);
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t row = g / (c_.k / 4);
      const std::int64_t group = g % (c_.k / 4);
      const std::uint8_t pair = kPairs[random_() % 6];
      auto& byte = mask[static_cast<std::size_t>(row * mask_stride() + group / 2)];
      byte = static_cast<std::uint8_t>(byte | (pair << (4 * (group % 2))));
      int next = 0;
      for (int j = 0; j < 4; ++j) {
        if (((pair >> j) & 1) == 0) continue;
        const float value = random_() % 8 == 0 ? -0.0f : draw();
        put(values, 2 * g + next, value);
        dense[static_cast<std::size_t>(row * c_.k + 4 * group + j)] =
            reference_value(c_.dtype, values.data(), 2 * g + next);
        ++next;
      }
    }
    slabs.resize(static_cast<std::size_t>(layout().bytes()));
    const formats::TwoFourBitmaskView view{values.data(), mask.data(), c_.dtype,     c_.n,
                                           c_.k,          c_.k / 2,    mask_stride()};
    EXPECT_FALSE(formats::pack_sm90(view, slabs.data()).found());
  }

  Case c_;
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

class GpuMatmul24Sm90 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    if (current_device_caps().compute_capability != 90)
      GTEST_SKIP() << "no CUDA device of compute capability 9.0";
    check_cuda(cudaStreamCreateWithFlags(&cuda_stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check_cuda(cudaMalloc(&workspace_, kWorkspaceBytes), "cudaMalloc");
    check_cuda(cudaMemset(workspace_, 0, kMatmul24CounterBytes), "cudaMemset");
    check_cuda(cudaMemset(static_cast<std::byte*>(workspace_) + kMatmul24CounterBytes, 0xff,
                          kWorkspaceBytes - kMatmul24CounterBytes),
               "cudaMemset");
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  void TearDown() override {
    cudaFree(workspace_);
    if (cuda_stream_ != nullptr) cudaStreamDestroy(cuda_stream_);
  }
  Stream stream() const { return {{DeviceType::kCuda, 0}, cuda_stream_}; }

  static constexpr std::size_t kWorkspaceBytes = 64u << 20;
  cudaStream_t cuda_stream_ = nullptr;
  void* workspace_ = nullptr;
};

// A problem on the device.
class OnDevice {
 public:
  OnDevice(const Problem& p, Stream stream, void* workspace, std::size_t workspace_bytes)
      : c_(p.c()),
        x_(p.x),
        slabs_(p.slabs),
        x_scale_(p.x_scale),
        weight_scale_(p.weight_scale),
        bias_(p.bias),
        residual_(p.residual),
        y_(p.y) {
    const bool scaled = !p.x_scale.empty();
    args.x = {x_.data(), c_.dtype, c_.m, c_.k, p.x_stride()};
    args.weight = {slabs_.data(), c_.dtype, c_.n, c_.k};
    args.x_scale = scaled ? x_scale_.data<float>() : nullptr;
    args.weight_scale = scaled ? weight_scale_.data<float>() : nullptr;
    args.bias = c_.bias ? bias_.data<float>() : nullptr;
    args.y = {y_.data(), c_.out, c_.m, c_.n, p.y_stride()};
    if (c_.residual) args.residual = {residual_.data(), c_.out, c_.m, c_.n, p.y_stride()};
    args.workspace = workspace;
    args.workspace_bytes = workspace_bytes;
    args.stream = stream;
  }
  std::vector<std::uint8_t> result() const { return y_.to_host<std::uint8_t>(); }
  void poison(const Problem& p) {
    check_cuda(cudaMemcpy(y_.data(), p.y.data(), p.y.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }

  Matmul24Sm90Args args;

 private:
  Case c_;
  DeviceBytes x_, slabs_, x_scale_, weight_scale_, bias_, residual_, y_;
};

void expect_result(const Problem& p, const std::vector<std::uint8_t>& y, const std::string& what) {
  const Case& c = p.c();
  if (c.integers) {
    ASSERT_EQ(y == p.expected, true) << what << ": not equal to the reference";
    return;
  }
  int shown = 0;
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      const double seen = reference_value(c.out, y.data(), i * p.y_stride() + j);
      const double wanted = reference_value(c.out, p.expected.data(), i * p.y_stride() + j);
      if (std::abs(seen - wanted) <= p.tolerance(i, j)) continue;
      ADD_FAILURE() << what << " at " << i << ", " << j << ": " << seen << ", expected " << wanted
                    << " within " << p.tolerance(i, j);
      if (++shown == 3) return;
    }
  }
}

std::string name_of(const Case& c, const Matmul24Sm90Plan& plan) {
  return std::string(dtype_name(c.dtype)) + " m " + std::to_string(c.m) + " n " + std::to_string(c.n) +
         " k " + std::to_string(c.k) + " to " + std::string(dtype_name(c.out)) + ", " + to_string(plan);
}

// A plan of the streaming kernel that lacks its clusters and stages.
Matmul24Sm90Plan stream_plan(std::int64_t m, DType dtype) {
  Matmul24Sm90Plan plan;
  plan.token_tile = stream_token_tile(m);
  plan.promote = dtype == DType::kFloat8E4M3 && plan.token_tile <= kStreamPromotedTokens;
  return plan;
}

// `plan` with every way to cut and to stage it: several row groups a cluster and several clusters a row
// group, rings shorter and longer than a block's share, blocks without a share.
std::vector<Matmul24Sm90Plan> every_plan(Matmul24Sm90Plan plan, const formats::TwoFourSm90Layout& layout,
                                         const Sm90Caps& caps) {
  std::vector<Matmul24Sm90Plan> plans;
  for (int group_rows : {1, 2, 4}) {
    for (int cluster : {1, 2, 4, 8}) {
      for (int clusters : {1, 2, 3, 7, 13}) {
        for (int stages : {2, 3, 4, 7}) {
          for (bool resident : {false, true}) {
            plan.group_rows = group_rows;
            plan.cluster = cluster;
            plan.clusters = clusters;
            plan.stages = stages;
            plan.resident_x = resident;
            if (cluster < group_rows || plan.token_tile < 8 * group_rows) continue;
            if (resident && (stages == 3 || group_rows > 1 || layout.row_blocks() % clusters != 0 ||
                             stream_24_exchange_in_ring(plan.token_tile, cluster)))
              continue;
            if (clusters > stream_row_groups(plan, layout.row_blocks()) * layout.k_tiles()) continue;
            if (stream_shared_bytes(plan, layout.k_tiles(), layout.element_bytes) <=
                caps.shared_memory_per_block)
              plans.push_back(plan);
          }
        }
      }
    }
  }
  return plans;
}

TEST_F(GpuMatmul24Sm90, IntegersAreExactInEveryPlan) {
  const Sm90Caps caps = sm90_caps(stream());
  for (DType dtype : kDTypes) {
    for (std::int64_t m : {1, 9, 32, 61, 70, 128}) {
      for (auto [n, k] : {std::pair<int, int>{4, 4}, {130, 260}, {384, 1028}, {1, 2052}}) {
        const Problem p({.dtype = dtype, .m = m, .n = n, .k = k, .bias = true}, 11);
        OnDevice device(p, stream(), workspace_, kWorkspaceBytes);
        for (const Matmul24Sm90Plan& plan : every_plan(stream_plan(m, dtype), p.layout(), caps)) {
          device.poison(p);
          matmul_24_sm90(device.args, plan);
          expect_result(p, device.result(), name_of(p.c(), plan));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(GpuMatmul24Sm90, EveryTokenCountIsExact) {
  for (DType dtype : kDTypes) {
    for (std::int64_t m = 1; m <= 130; ++m) {
      const Problem p({.dtype = dtype, .m = m, .n = 132, .k = 132}, 12);
      OnDevice device(p, stream(), workspace_, kWorkspaceBytes);
      matmul_24_sm90(device.args);
      expect_result(p, device.result(), name_of(p.c(), {}));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(GpuMatmul24Sm90, RandomRaggedShapesAreWithinRounding) {
  std::mt19937 random(13);
  for (int i = 0; i < 24; ++i) {
    Case c;
    c.dtype = kDTypes[random() % 4];
    c.m = 1 + random() % 140;
    c.n = 1 + random() % 300;
    c.k = 4 + 4 * (random() % 400);
    c.out = std::array{DType::kFloat32, DType::kBFloat16, DType::kFloat16}[random() % 3];
    if (c.dtype == DType::kInt8) c.out = DType::kFloat32;  // large sums overflow float16
    c.bias = random() % 2 == 0;
    c.residual = random() % 2 == 0;
    c.integers = false;
    c.x_padding = random() % 3;
    c.y_padding = random() % 5;
    const Problem p(c, random());
    OnDevice device(p, stream(), workspace_, kWorkspaceBytes);
    matmul_24_sm90(device.args);
    expect_result(p, device.result(), name_of(c, plan_matmul_24_sm90({c.m, c.n, c.k, c.dtype}, {})));
  }
}

TEST_F(GpuMatmul24Sm90, TheResidualMayBeTheOutput) {
  const Problem p(
      {.dtype = DType::kBFloat16, .m = 17, .n = 300, .k = 512, .out = DType::kBFloat16, .residual = true},
      14);
  OnDevice device(p, stream(), workspace_, kWorkspaceBytes);
  device.args.residual = device.args.y;
  matmul_24_sm90(device.args);
  expect_result(p, device.result(), "in place");
}

TEST_F(GpuMatmul24Sm90, RunsAreTheSameBitForBit) {
  for (DType dtype : kDTypes) {
    for (auto [m, n] : {std::pair<int, int>{20, 700}, {61, 300}, {128, 300}}) {
      const Problem p({.dtype = dtype, .m = m, .n = n, .k = 2052, .integers = false}, 15);
      OnDevice device(p, stream(), workspace_, kWorkspaceBytes);
      matmul_24_sm90(device.args);
      const std::vector<std::uint8_t> first = device.result();
      for (int i = 0; i < 20; ++i) {
        device.poison(p);
        matmul_24_sm90(device.args);
        ASSERT_EQ(device.result() == first, true);
      }
    }
  }
}

// Many launches in a row, each started before the one in front has ended, that fill the device.
TEST_F(GpuMatmul24Sm90, OverlappingLaunchesThatFillTheDeviceAreExact) {
  for (std::int64_t m : {61, 128}) {
    for (auto [n, k] : {std::pair<int, int>{3970, 2048}, {16000, 132}}) {
      const Problem p({.dtype = DType::kFloat8E4M3, .m = m, .n = n, .k = k}, 19);
      OnDevice device(p, stream(), workspace_, kWorkspaceBytes);
      device.args.overlap_previous = true;
      for (int i = 0; i < 20; ++i) matmul_24_sm90(device.args);
      expect_result(p, device.result(), name_of(p.c(), plan_matmul_24_sm90({m, n, k, p.c().dtype}, {})));
      if (HasFatalFailure()) return;
    }
  }
}

// y of one layer is x of the next, each started before the one in front has finished.
TEST_F(GpuMatmul24Sm90, AChainOfOverlappingLayersCanBeCapturedAndReplayed) {
  const Problem first({.dtype = DType::kBFloat16, .m = 20, .n = 1024, .k = 512, .out = DType::kBFloat16}, 16);
  const Problem second({.dtype = DType::kBFloat16, .m = 20, .n = 512, .k = 1024, .integers = false}, 17);
  OnDevice a(first, stream(), workspace_, kWorkspaceBytes);
  OnDevice b(second, stream(), workspace_, kWorkspaceBytes);
  b.args.x = a.args.y;
  a.args.overlap_previous = b.args.overlap_previous = true;
  matmul_24_sm90(a.args);
  matmul_24_sm90(b.args);
  const std::vector<std::uint8_t> eager = b.result();
  // The second layer on the reference's x gives the same.
  OnDevice alone(second, stream(), workspace_, kWorkspaceBytes);
  DeviceBytes exact_x(first.expected);
  alone.args.x.data = exact_x.data();
  matmul_24_sm90(alone.args);
  EXPECT_EQ(alone.result() == eager, true);

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  check_cuda(cudaStreamBeginCapture(cuda_stream_, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  for (int i = 0; i < 10; ++i) {
    matmul_24_sm90(a.args);
    matmul_24_sm90(b.args);
  }
  check_cuda(cudaStreamEndCapture(cuda_stream_, &graph), "cudaStreamEndCapture");
  check_cuda(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
  for (int i = 0; i < 20; ++i) {
    a.poison(first);
    b.poison(second);
    check_cuda(cudaGraphLaunch(replay, cuda_stream_), "cudaGraphLaunch");
    ASSERT_EQ(b.result() == eager, true);
    ASSERT_EQ(a.result() == first.expected, true);
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
}

TEST_F(GpuMatmul24Sm90, WrongArgumentsAreErrors) {
  const Problem p({.dtype = DType::kFloat8E4M3, .m = 4, .n = 128, .k = 128}, 18);
  OnDevice device(p, stream(), workspace_, kWorkspaceBytes);
  const auto expect_error = [&](auto change) {
    Matmul24Sm90Args args = device.args;
    change(args);
    EXPECT_THROW(matmul_24_sm90(args), Error);
  };
  expect_error([](auto& a) { a.stream = {}; });
  expect_error([](auto& a) { a.x.cols = 124; });
  expect_error([](auto& a) { a.x.dtype = DType::kInt8; });
  expect_error([](auto& a) { a.x_scale = nullptr; });
  expect_error([](auto& a) { a.y.dtype = DType::kFloat8E4M3; });
  expect_error([](auto& a) { a.y.cols = 120; });
  expect_error([](auto& a) { a.y.row_stride = 100; });
  expect_error([](auto& a) { a.y.data = static_cast<std::byte*>(a.y.data) + 1; });
  expect_error([](auto& a) { a.y.data = const_cast<void*>(a.x.data); });
  expect_error([](auto& a) { a.residual = {static_cast<std::byte*>(a.y.data) + 4, a.y.dtype, 4, 128, 128}; });
  expect_error([](auto& a) { a.weight.slabs = static_cast<const std::byte*>(a.weight.slabs) + 8; });
  expect_error([](auto& a) { a.workspace_bytes = 100; });
  expect_error([](auto& a) { a.workspace = nullptr; });
  Matmul24Sm90Plan plan = plan_matmul_24_sm90({4, 128, 128, DType::kFloat8E4M3}, {});
  plan.cluster = 3;
  EXPECT_THROW(matmul_24_sm90(device.args, plan), Error);
  plan.cluster = 1;
  plan.group_rows = 2;
  EXPECT_THROW(matmul_24_sm90(device.args, plan), Error);
  plan.cluster = 8;
  plan.group_rows = 1;
  plan.token_tile = 128;
  plan.resident_x = true;
  EXPECT_THROW(matmul_24_sm90(device.args, plan), Error);
  plan.token_tile = 8;
  plan.resident_x = false;
  plan.cluster = 2;
  plan.stages = kMatmul24CounterBytes;
  EXPECT_THROW(matmul_24_sm90(device.args, plan), Error);
}

}  // namespace
}  // namespace grille::kernels
