// Inputs for the tests of pack_24 and unpack_24, on the CPU and on CUDA devices.
#pragma once

#include <cstdint>
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "grille/kernels/pack_24.h"
#include "grille/kernels/unpack_24.h"
#include "grille/kernels/weight_bits.h"

namespace grille::kernels::testing {

constexpr DType kWeightTypes[] = {DType::kFloat32,    DType::kBFloat16,   DType::kFloat16,
                                  DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kInt8};

// One weight and how it is stored.
struct TwoFourCase {
  DType dtype = DType::kBFloat16;
  std::int64_t rows = 1;
  std::int64_t cols = 8;
  std::int64_t dense_padding = 0;     // elements between rows
  std::int64_t value_padding = 0;     // elements
  std::int64_t position_padding = 0;  // bytes
  TwoFourPositions form = TwoFourPositions::kMetadata;

  std::int64_t value_stride() const { return cols / 2 + value_padding; }
  std::int64_t position_stride() const { return (cols + 7) / 8 + position_padding; }
  std::int64_t dense_stride() const { return cols + dense_padding; }
  std::int64_t size() const { return static_cast<std::int64_t>(dtype_size(dtype)); }
};

inline void PrintTo(const TwoFourCase& c, std::ostream* out) {
  *out << dtype_name(c.dtype) << " [" << c.rows << ", " << c.cols << "] dense +" << c.dense_padding
       << ", values +" << c.value_padding << ", positions +" << c.position_padding
       << (c.form == TwoFourPositions::kMetadata ? ", metadata" : ", bitmask");
}

// Every dtype and form, with rows that start at any alignment, and with a half last unit.
inline std::vector<TwoFourCase> two_four_cases() {
  std::vector<TwoFourCase> cases;
  for (DType dtype : kWeightTypes) {
    for (TwoFourPositions form : {TwoFourPositions::kMetadata, TwoFourPositions::kBitmask}) {
      cases.push_back({dtype, 3, 4, 0, 0, 0, form});
      cases.push_back({dtype, 5, 12, 1, 3, 2, form});
      cases.push_back({dtype, 7, 64, 0, 0, 0, form});
      cases.push_back({dtype, 33, 200, 0, 28, 7, form});
      cases.push_back({dtype, 130, 1028, 4, 62, 31, form});
      cases.push_back({dtype, 257, 576, 8, 1, 0, form});
    }
  }
  return cases;
}

// Where the bits of element `column` of `row` are in a matrix of `stride` elements a row.
inline std::uint32_t bits_at(const std::vector<std::uint8_t>& bytes, std::int64_t size, std::int64_t index) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * size, static_cast<std::size_t>(size));
  return bits;
}

inline void set_bits(std::vector<std::uint8_t>& bytes, std::int64_t size, std::int64_t index,
                     std::uint32_t bits) {
  std::memcpy(bytes.data() + index * size, &bits, static_cast<std::size_t>(size));
}

// Random 2:4 weights: all six patterns, groups of one and no non-zero, zeros of both signs; what lies
// between rows is garbage that must not be read as weights.
inline std::vector<std::uint8_t> random_dense(const TwoFourCase& c, unsigned seed) {
  std::mt19937 random(seed);
  const WeightBits kind = weight_bits(c.dtype);
  std::vector<std::uint8_t> dense(static_cast<std::size_t>(c.rows * c.dense_stride() * c.size()));
  for (auto& byte : dense) byte = static_cast<std::uint8_t>(random());
  const std::uint32_t sign = kind.dtype == DType::kInt8 ? 0u : kind.magnitude_mask + 1u;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) {
      set_bits(dense, c.size(), i * c.dense_stride() + j, random() % 2 == 0 ? sign : 0u);
    }
    for (std::int64_t group = 0; group < c.cols / 4; ++group) {
      for (unsigned k = random() % 3; k > 0; --k) {
        const std::uint32_t magnitude = 1u + random() % (kind.first_not_finite - 1u);
        const std::uint32_t bits = magnitude | (random() % 2 == 0 ? sign : 0u);
        set_bits(dense, c.size(), i * c.dense_stride() + 4 * group + random() % 4, bits);
      }
    }
  }
  return dense;
}

// Room for the packed form, filled with garbage.
struct PackedBytes {
  explicit PackedBytes(const TwoFourCase& c)
      : values(static_cast<std::size_t>(c.rows * c.value_stride() * c.size()), 0xa5),
        positions(static_cast<std::size_t>(c.rows * c.position_stride()), 0xa5) {}
  bool operator==(const PackedBytes&) const = default;

  std::vector<std::uint8_t> values;
  std::vector<std::uint8_t> positions;
};

inline ConstMatrixView dense_view(const TwoFourCase& c, const void* data) {
  return {data, c.dtype, c.rows, c.cols, c.dense_stride()};
}

inline MatrixView dense_view(const TwoFourCase& c, void* data) {
  return {data, c.dtype, c.rows, c.cols, c.dense_stride()};
}

inline PackedTwoFour packed_view(const TwoFourCase& c, void* values, std::uint8_t* positions) {
  return {values, positions, c.value_stride(), c.position_stride(), c.form};
}

inline ConstPackedTwoFour const_packed_view(const TwoFourCase& c, const void* values,
                                            const std::uint8_t* positions) {
  return {values, positions, c.value_stride(), c.position_stride(), c.form};
}

}  // namespace grille::kernels::testing
