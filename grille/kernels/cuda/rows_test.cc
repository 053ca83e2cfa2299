// rms_norm, silu_mul, rope and quantize_fp8_rows on a CUDA device, against the CPU's.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "grille/kernels/cuda/device_bytes.h"
#include "grille/kernels/cuda/on_device.h"
#include "grille/kernels/quantize_fp8_rows.h"
#include "grille/kernels/rms_norm.h"
#include "grille/kernels/rope.h"
#include "grille/kernels/row_cases.h"
#include "grille/kernels/silu_mul.h"

namespace grille::kernels {
namespace {

using testing::DeviceBytes;
using testing::kFloatTypes;
using testing::Matrix;

// A matrix on the device with the layout of one on the host.
struct DeviceMatrix {
  DeviceBytes bytes;
  const Matrix& host;

  explicit DeviceMatrix(const Matrix& matrix) : bytes(matrix.data), host(matrix) {}
  MatrixView view() { return {bytes.data(), host.dtype, host.rows, host.cols, host.stride}; }
  Matrix to_host() const {
    Matrix copy = host;
    copy.data = bytes.to_host<std::byte>();
    return copy;
  }
};

// Columns and gaps with which rows are whole vectors, and not.
struct Shape {
  std::int64_t rows, cols, gap;
};
constexpr Shape kShapes[] = {{1, 1, 0},   {3, 5, 3},    {4, 64, 0},  {2, 576, 8},
                             {5, 577, 7}, {3, 8192, 0}, {2, 9000, 0}};

using GpuRows = testing::OnDevice<::testing::Test>;

double unit(DType dtype) {
  return dtype == DType::kFloat32 ? 0x1p-23 : dtype == DType::kFloat16 ? 0x1p-10 : 0x1p-7;
}

void expect_close(const Matrix& got, const Matrix& expected, double relative, double absolute) {
  for (std::int64_t i = 0; i < got.rows; ++i) {
    for (std::int64_t j = 0; j < got.cols; ++j) {
      ASSERT_LE(std::fabs(got.at(i, j) - expected.at(i, j)),
                relative * std::fabs(expected.at(i, j)) + absolute)
          << dtype_name(got.dtype) << " [" << got.rows << ", " << got.cols << "] at " << i << ", " << j;
    }
  }
}

TEST_F(GpuRows, RmsNormAsOnTheCpu) {
  for (const DType dtype : kFloatTypes) {
    for (const Shape& s : kShapes) {
      const Matrix x(dtype, s.rows, s.cols, 1, 3.0f, s.gap);
      const Matrix weight(DType::kFloat32, 1, s.cols, 2, 1.0f, 0);
      Matrix expected = x;
      rms_norm(expected.view(), reinterpret_cast<const float*>(weight.data.data()), 1e-5f, expected.view());
      DeviceMatrix y(x), w(weight);
      rms_norm(y.view(), w.bytes.data<float>(), 1e-5f, y.view(), stream());
      // Sums in another order: both are good to cols roundings; then two roundings to the dtype.
      const double relative = 2 * unit(dtype) + static_cast<double>(s.cols + 8) * 0x1p-24;
      expect_close(y.to_host(), expected, relative, 0x1p-24);
    }
  }
}

TEST_F(GpuRows, SiluMulAsOnTheCpu) {
  for (const DType dtype : kFloatTypes) {
    for (const Shape& s : kShapes) {
      Matrix gate(dtype, s.rows, s.cols, 1, 20.0f, s.gap), up(dtype, s.rows, s.cols, 2, 1.0f, s.gap);
      Matrix expected = gate;
      silu_mul(gate.view(), up.view(), expected.view());
      DeviceMatrix device_gate(gate), device_up(up), y(gate);
      silu_mul(device_gate.view(), device_up.view(), y.view(), stream());
      // Each side's exp is good to 2 units, the rest is 4 roundings; tiny results may underflow.
      expect_close(y.to_host(), expected, unit(dtype) + 16 * 0x1p-24, 0x1p-24);
    }
  }
}

TEST_F(GpuRows, SiluMulPairsIsSiluMulOfEvenAndOddColumns) {
  for (const DType dtype : kFloatTypes) {
    for (const Shape& s : kShapes) {
      const Matrix x(dtype, s.rows, 2 * s.cols, 1, 5.0f, 2 * s.gap);
      Matrix gate(dtype, s.rows, s.cols, 0), up = gate, expected = gate;
      for (std::int64_t i = 0; i < s.rows; ++i) {
        for (std::int64_t j = 0; j < s.cols; ++j) {
          set_reference_value(dtype, gate.data.data(), i * gate.stride + j,
                              static_cast<float>(x.at(i, 2 * j)));
          set_reference_value(dtype, up.data.data(), i * up.stride + j,
                              static_cast<float>(x.at(i, 2 * j + 1)));
        }
      }
      silu_mul(gate.view(), up.view(), expected.view());
      DeviceMatrix device_x(x), y(gate);
      silu_mul_pairs(device_x.view(), y.view(), stream());
      expect_close(y.to_host(), expected, unit(dtype) + 16 * 0x1p-24, 0x1p-24);
    }
  }
}

TEST_F(GpuRows, RopeAsOnTheCpuBitForBit) {
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t head_dim : {2, 8, 64, 80, 128}) {
      Matrix x(dtype, 5, 3 * head_dim, 1);
      const Matrix angles(DType::kFloat32, 10, head_dim / 2, 2, 1.0f, 0);
      const auto* cos = reinterpret_cast<const float*>(angles.data.data());
      DeviceMatrix device_x(x), device_angles(angles);
      const float* device_cos = device_angles.bytes.data<float>();
      rope(device_x.view(), head_dim, device_cos, device_cos + 5 * head_dim / 2, stream());
      rope(x.view(), head_dim, cos, cos + 5 * head_dim / 2);
      EXPECT_EQ(device_x.to_host().data, x.data) << dtype_name(dtype) << " " << head_dim;
    }
  }
}

TEST_F(GpuRows, QuantizeFp8RowsAsOnTheCpuBitForBit) {
  for (const DType dtype : kFloatTypes) {
    for (const Shape& s : kShapes) {
      Matrix x(dtype, s.rows, s.cols, 1, 3.0f, s.gap);
      set_reference_value(dtype, x.data.data(), (s.rows - 1) * x.stride, -0.0f);
      if (s.rows > 2) {  // a row of zeros
        for (std::int64_t j = 0; j < s.cols; ++j)
          set_reference_value(dtype, x.data.data(), x.stride + j, 0.0f);
      }
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(s.rows * s.cols));
      std::vector<float> scales(static_cast<std::size_t>(s.rows));
      DeviceBytes device_codes(codes), device_scales(scales);
      quantize_fp8_rows(x.view(), {codes.data(), DType::kFloat8E4M3, s.rows, s.cols, s.cols}, scales.data());
      DeviceMatrix device_x(x);
      quantize_fp8_rows(device_x.view(), {device_codes.data(), DType::kFloat8E4M3, s.rows, s.cols, s.cols},
                        device_scales.data<float>(), stream());
      EXPECT_EQ(device_codes.to_host<std::uint8_t>(), codes) << dtype_name(dtype) << " " << s.cols;
      EXPECT_EQ(device_scales.to_host<float>(), scales);
    }
  }
}

TEST_F(GpuRows, ARowThatIsNotFiniteKeepsThatInItsScale) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Matrix x(DType::kFloat32, 2, 300, 1, 1.0f, 0);
    set_reference_value(DType::kFloat32, x.data.data(), 7, bad);
    DeviceMatrix device_x(x);
    DeviceBytes codes(std::vector<std::uint8_t>(600)), scales(std::vector<float>(2));
    quantize_fp8_rows(device_x.view(), {codes.data(), DType::kFloat8E4M3, 2, 300, 300}, scales.data<float>(),
                      stream());
    EXPECT_FALSE(std::isfinite(scales.to_host<float>()[0]));
    EXPECT_TRUE(std::isfinite(scales.to_host<float>()[1]));
  }
}

}  // namespace
}  // namespace grille::kernels
