// pack_24, unpack_24 and select_24 on a CUDA device, against the references.
#include <cmath>

#include <gtest/gtest.h>

#include "grille/kernels/cuda/device_bytes.h"
#include "grille/kernels/cuda/on_device.h"
#include "grille/kernels/pack_24.h"
#include "grille/kernels/select_24.h"
#include "grille/kernels/select_24_cases.h"
#include "grille/kernels/two_four_cases.h"
#include "grille/kernels/unpack_24.h"

namespace grille::kernels {
namespace {

using testing::DeviceBytes;
using testing::OnDevice;
using testing::PackedBytes;
using testing::SelectCase;
using testing::TwoFourCase;

const TwoFourViolation kGarbage{7, 7, 7, {7, 7, 7, 7}};

void expect_equal(const TwoFourViolation& a, const TwoFourViolation& b) {
  EXPECT_EQ(a.row, b.row);
  EXPECT_EQ(a.group, b.group);
  EXPECT_EQ(a.nibble, b.nibble);
  for (int j = 0; j < 4; ++j) {
    if (std::isnan(b.values[j])) {
      EXPECT_TRUE(std::isnan(a.values[j]));
    } else {
      EXPECT_EQ(a.values[j], b.values[j]);
    }
  }
}

class GpuTwoFourCases : public OnDevice<::testing::TestWithParam<TwoFourCase>> {
 protected:
  // Packs `dense` on the device and compares all of it with the reference.
  void expect_packs_as_reference(const std::vector<std::uint8_t>& dense) {
    const TwoFourCase& c = GetParam();
    PackedBytes expected(c);
    TwoFourViolation expected_violation;
    pack_24_reference({.dense = testing::dense_view(c, static_cast<const void*>(dense.data())),
                       .packed = testing::packed_view(c, expected.values.data(), expected.positions.data()),
                       .violation = &expected_violation,
                       .stream = {}});
    const PackedBytes garbage(c);
    DeviceBytes device_dense(dense);
    DeviceBytes values(garbage.values);
    DeviceBytes positions(garbage.positions);
    DeviceBytes violation(&kGarbage, sizeof(kGarbage));
    pack_24({.dense = testing::dense_view(c, static_cast<const void*>(device_dense.data())),
             .packed = testing::packed_view(c, values.data(), positions.data<std::uint8_t>()),
             .violation = violation.data<TwoFourViolation>(),
             .stream = stream()});
    expect_equal(violation.to_host<TwoFourViolation>().at(0), expected_violation);
    if (expected_violation.found()) return;
    EXPECT_EQ(values.to_host<std::uint8_t>(), expected.values);
    EXPECT_EQ(positions.to_host<std::uint8_t>(), expected.positions);
  }
};

TEST_P(GpuTwoFourCases, PackAsTheReference) {
  const TwoFourCase& c = GetParam();
  std::vector<std::uint8_t> dense = testing::random_dense(c, 5);
  expect_packs_as_reference(dense);
  for (std::int64_t row :
       {c.rows - 1, c.rows / 2}) {  // a third non-zero, then an earlier one that is not finite
    const std::uint32_t bits =
        row == c.rows - 1 ? 0x11u : weight_bits(c.dtype).first_not_finite & 0xffffffffu;
    for (int j = 0; j < 4; ++j)
      testing::set_bits(dense, c.size(), row * c.dense_stride() + c.cols - 4 + j, bits);
    expect_packs_as_reference(dense);
  }
}

TEST_P(GpuTwoFourCases, UnpackAsTheReference) {
  const TwoFourCase& c = GetParam();
  PackedBytes packed(c);
  TwoFourViolation expected_violation;
  const std::vector<std::uint8_t> dense = testing::random_dense(c, 6);
  pack_24_reference({.dense = testing::dense_view(c, static_cast<const void*>(dense.data())),
                     .packed = testing::packed_view(c, packed.values.data(), packed.positions.data()),
                     .violation = &expected_violation,
                     .stream = {}});
  for (bool broken : {false, true}) {
    if (broken) packed.positions[static_cast<std::size_t>((c.rows - 1) * c.position_stride())] = 0xf0;
    std::vector<std::uint8_t> expected(dense.size(), 0xa5);
    DeviceBytes unpacked(expected);
    DeviceBytes values(packed.values);
    DeviceBytes positions(packed.positions);
    DeviceBytes violation(&kGarbage, sizeof(kGarbage));
    unpack_24_reference(
        {.packed = testing::const_packed_view(c, packed.values.data(), packed.positions.data()),
         .dense = testing::dense_view(c, static_cast<void*>(expected.data())),
         .violation = &expected_violation,
         .stream = {}});
    unpack_24({.packed = testing::const_packed_view(c, values.data(), positions.data<std::uint8_t>()),
               .dense = testing::dense_view(c, unpacked.data()),
               .violation = violation.data<TwoFourViolation>(),
               .stream = stream()});
    EXPECT_EQ(expected_violation.found(), broken);
    expect_equal(violation.to_host<TwoFourViolation>().at(0), expected_violation);
    EXPECT_EQ(unpacked.to_host<std::uint8_t>(), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuTwoFourCases, ::testing::ValuesIn(testing::two_four_cases()));

class GpuSelectCases : public OnDevice<::testing::TestWithParam<SelectCase>> {};

TEST_P(GpuSelectCases, AgreeWithTheReference) {
  const SelectCase& c = GetParam();
  std::vector<float> scores = testing::tied_scores(c, 7);
  for (bool with_nan : {false, true}) {
    if (with_nan)
      scores[static_cast<std::size_t>((c.rows - 1) * c.score_stride() + c.cols() - 1)] = std::nanf("");
    std::vector<std::uint8_t> expected(static_cast<std::size_t>(c.rows * c.mask_stride()), 0xa5);
    DeviceBytes device_scores(scores);
    DeviceBytes mask(expected);
    DeviceBytes violation(&kGarbage, sizeof(kGarbage));
    TwoFourViolation expected_violation;
    select_24_reference(testing::select_args(c, scores.data(), expected.data(), &expected_violation));
    select_24(testing::select_args(c, device_scores.data<float>(), mask.data<std::uint8_t>(),
                                   violation.data<TwoFourViolation>(), stream()));
    EXPECT_EQ(expected_violation.found(), with_nan);
    expect_equal(violation.to_host<TwoFourViolation>().at(0), expected_violation);
    EXPECT_EQ(mask.to_host<std::uint8_t>(), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuSelectCases, ::testing::ValuesIn(testing::select_cases()));

class GpuTwoFour : public OnDevice<::testing::Test> {};

TEST_F(GpuTwoFour, OpsCanBeCapturedInAGraphAndReplayed) {
  const TwoFourCase c{DType::kBFloat16, 64, 512};
  const std::vector<std::uint8_t> dense = testing::random_dense(c, 8);
  const PackedBytes garbage(c);
  DeviceBytes device_dense(dense);
  DeviceBytes values(garbage.values);
  DeviceBytes positions(garbage.positions);
  DeviceBytes violation(&kGarbage, sizeof(kGarbage));
  const Pack24Args args{.dense = testing::dense_view(c, static_cast<const void*>(device_dense.data())),
                        .packed = testing::packed_view(c, values.data(), positions.data<std::uint8_t>()),
                        .violation = violation.data<TwoFourViolation>(),
                        .stream = stream()};
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  check_cuda(cudaStreamBeginCapture(cuda_stream_, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  pack_24(args);
  check_cuda(cudaStreamEndCapture(cuda_stream_, &graph), "cudaStreamEndCapture");
  check_cuda(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
  EXPECT_EQ(values.to_host<std::uint8_t>(), garbage.values) << "nothing may run during capture";
  check_cuda(cudaGraphLaunch(replay, cuda_stream_), "cudaGraphLaunch");
  PackedBytes expected(c);
  TwoFourViolation expected_violation;
  pack_24_reference({.dense = testing::dense_view(c, static_cast<const void*>(dense.data())),
                     .packed = testing::packed_view(c, expected.values.data(), expected.positions.data()),
                     .violation = &expected_violation,
                     .stream = {}});
  EXPECT_EQ(values.to_host<std::uint8_t>(), expected.values);
  expect_equal(violation.to_host<TwoFourViolation>().at(0), expected_violation);
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
}

TEST_F(GpuTwoFour, AnEmptyWeightIsNoViolation) {
  DeviceBytes violation(&kGarbage, sizeof(kGarbage));
  pack_24({.dense = {nullptr, DType::kFloat32, 0, 8, 8},
           .packed = {nullptr, nullptr, 4, 1, TwoFourPositions::kMetadata},
           .violation = violation.data<TwoFourViolation>(),
           .stream = stream()});
  expect_equal(violation.to_host<TwoFourViolation>().at(0), {});
}

}  // namespace
}  // namespace grille::kernels
