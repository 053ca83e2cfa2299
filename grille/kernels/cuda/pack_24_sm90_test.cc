// pack_24_sm90 on a CUDA device, against formats::pack_sm90.
#include <cmath>

#include <gtest/gtest.h>

#include "grille/kernels/cuda/device_bytes.h"
#include "grille/kernels/cuda/on_device.h"
#include "grille/kernels/pack_24_sm90.h"
#include "grille/kernels/sm90_cases.h"

namespace grille::kernels {
namespace {

using testing::DeviceBytes;
using testing::PackedBytes;
using testing::TwoFourCase;

class GpuPack24Sm90 : public testing::OnDevice<::testing::TestWithParam<TwoFourCase>> {
 protected:
  // Packs on both; the slabs are compared where there is no violation.
  void expect_packs_as_on_the_cpu(const PackedBytes& packed) {
    const TwoFourCase& c = GetParam();
    std::vector<std::uint8_t> expected(testing::sm90_bytes(c), 0x11);
    TwoFourViolation wanted;
    pack_24_sm90(
        testing::sm90_args(c, packed.values.data(), packed.positions.data(), expected.data(), &wanted));
    DeviceBytes values(packed.values);
    DeviceBytes positions(packed.positions);
    DeviceBytes slabs(std::vector<std::uint8_t>(expected.size(), 0xa5));
    DeviceBytes violation(std::vector<TwoFourViolation>{{7, 7, 7, {7, 7, 7, 7}}});
    pack_24_sm90(testing::sm90_args(c, values.data(), positions.data<std::uint8_t>(), slabs.data(),
                                    violation.data<TwoFourViolation>(),
                                    {{DeviceType::kCuda, 0}, cuda_stream_}));
    const TwoFourViolation seen = violation.to_host<TwoFourViolation>().at(0);
    EXPECT_EQ(seen.row, wanted.row);
    EXPECT_EQ(seen.group, wanted.group);
    EXPECT_EQ(seen.nibble, wanted.nibble);
    for (int j = 0; j < 2; ++j)
      EXPECT_TRUE(seen.values[j] == wanted.values[j] ||
                  (std::isnan(seen.values[j]) && std::isnan(wanted.values[j])));
    if (!wanted.found()) {
      EXPECT_EQ(slabs.to_host<std::uint8_t>() == expected, true);
    }
  }
};

TEST_P(GpuPack24Sm90, AsOnTheCpu) {
  const TwoFourCase& c = GetParam();
  PackedBytes packed = testing::packed_weight(c, 5);
  expect_packs_as_on_the_cpu(packed);
  if (c.dtype != DType::kInt8) {  // a NaN in the last group, a stored -0.0 before it
    testing::set_bits(packed.values, c.size(), (c.rows - 1) * c.value_stride() + c.cols / 2 - 1,
                      weight_bits(c.dtype).magnitude_mask);
    expect_packs_as_on_the_cpu(packed);
  }
  packed.positions[static_cast<std::size_t>(c.rows / 2 * c.position_stride())] = 0xf0;  // an earlier one
  expect_packs_as_on_the_cpu(packed);
}

TEST_P(GpuPack24Sm90, StoredNegativeZerosBecomeZeros) {
  const TwoFourCase& c = GetParam();
  if (c.dtype == DType::kInt8) return;
  PackedBytes packed = testing::packed_weight(c, 7);
  const std::uint32_t sign = weight_bits(c.dtype).magnitude_mask + 1u;
  for (std::int64_t i = 0; i < c.rows * c.value_stride(); i += 3)
    testing::set_bits(packed.values, c.size(), i, sign);
  expect_packs_as_on_the_cpu(packed);
}

INSTANTIATE_TEST_SUITE_P(All, GpuPack24Sm90, ::testing::ValuesIn(testing::sm90_cases()));

}  // namespace
}  // namespace grille::kernels
