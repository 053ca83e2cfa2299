#include "grille/kernels/pack_24_sm90.h"

#include <cmath>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/kernels/sm90_cases.h"

namespace grille::kernels {
namespace {

using testing::PackedBytes;
using testing::TwoFourCase;

TEST(Pack24Sm90, GivesBackTheWeight) {
  for (const TwoFourCase& c : testing::sm90_cases()) {
    if (c.form != TwoFourPositions::kMetadata) continue;
    const PackedBytes packed = testing::packed_weight(c, 5);
    std::vector<std::uint8_t> slabs(testing::sm90_bytes(c), 0xa5);
    TwoFourViolation violation{7, 7, 7, {}};
    pack_24_sm90(
        testing::sm90_args(c, packed.values.data(), packed.positions.data(), slabs.data(), &violation));
    EXPECT_FALSE(violation.found());
    PackedBytes unpacked(c);
    formats::unpack_sm90({slabs.data(), c.dtype, c.rows, c.cols}, unpacked.values.data(),
                         unpacked.positions.data());
    EXPECT_EQ(unpacked, packed);
  }
}

TEST(Pack24Sm90, SaysWhatItRefuses) {
  const TwoFourCase c{DType::kBFloat16, 130, 260};
  PackedBytes packed = testing::packed_weight(c, 6);
  std::vector<std::uint8_t> slabs(testing::sm90_bytes(c));
  TwoFourViolation violation;
  const auto message = [&] {
    pack_24_sm90(
        testing::sm90_args(c, packed.values.data(), packed.positions.data(), slabs.data(), &violation));
    try {
      check_packed_sm90(violation, "layer.weight");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(), "");
  testing::set_bits(packed.values, 2, 129 * 130 + 9, 0x7fc0);
  testing::set_bits(packed.values, 2, 129 * 130 + 8, 0x3f80);
  EXPECT_EQ(message(), "layer.weight: row 129, group 4: kept weights 1, nan: every weight must be finite");
  packed.positions[3 * 33 + 1] = 0x5e;
  EXPECT_EQ(message(), "layer.weight: row 3, group 3: position bits 0b0101 do not name two columns");
}

TEST(Pack24Sm90, WrongArgumentsAreErrors) {
  const TwoFourCase c{DType::kBFloat16, 2, 8};
  PackedBytes packed = testing::packed_weight(c, 6);
  std::vector<std::uint8_t> slabs(testing::sm90_bytes(c) + 16);
  TwoFourViolation violation;
  const auto args =
      testing::sm90_args(c, packed.values.data(), packed.positions.data(), slabs.data(), &violation);
  const auto expect_error = [&](auto change) {
    Pack24Sm90Args changed = args;
    change(changed);
    EXPECT_THROW(pack_24_sm90(changed), Error);
  };
  expect_error([](auto& a) { std::get<formats::TwoFourView>(a.weight).dtype = DType::kFloat32; });
  expect_error([](auto& a) { std::get<formats::TwoFourView>(a.weight).cols = 6; });
  expect_error([](auto& a) { std::get<formats::TwoFourView>(a.weight).values = nullptr; });
  expect_error([](auto& a) { a.slabs = nullptr; });
  expect_error([](auto& a) { a.slabs = static_cast<std::byte*>(a.slabs) + 2; });
  expect_error([](auto& a) { a.violation = nullptr; });
  expect_error(
      [](auto& a) { a.weight = formats::TwoFourBitmaskView{a.slabs, nullptr, DType::kInt8, 1, 8, 3, 1}; });
}

}  // namespace
}  // namespace grille::kernels
