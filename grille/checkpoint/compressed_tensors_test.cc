#include "grille/checkpoint/compressed_tensors.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string>

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "grille/checkpoint/safetensors.h"
#include "grille/checkpoint/scratch_directory.h"
#include "grille/tensors/views.h"

namespace grille::checkpoint {
namespace {

using tensors::Weight;

// A random 2:4 weight with groups of no, one and two non-zeros; with a scale a row where it is FP8.
Weight random_weight(std::int64_t rows, std::int64_t cols, at::ScalarType dtype) {
  std::mt19937 random(static_cast<unsigned>(rows * 1000 + cols));
  at::Tensor dense = at::zeros({rows, cols}, at::kFloat);
  for (std::int64_t group = 0; group < rows * cols / 4; ++group) {
    for (unsigned k = 0; k < random() % 3; ++k) {
      dense.mutable_data_ptr<float>()[group * 4 + random() % 4] =
          (static_cast<float>(random() % 200) - 100.0f) / 8.0f;
    }
  }
  Weight weight = tensors::two_four_from_dense(dense.to(dtype), "w");
  if (dtype == at::kFloat8_e4m3fn) weight.scale = at::full({rows}, 0.125, at::kBFloat16);
  return weight;
}

CompressionConfig config_for(bool two_four, bool fp8) {
  CompressionConfig config;
  if (fp8) config.groups.push_back({"group_0", ModuleTargets({"Linear"}), {}});
  if (two_four) config.two_four = SparseGroup{ModuleTargets({"Linear"}), {}, 0.5};
  return config;
}

// What is put in a file, to be spoilt one piece at a time.
struct RawTensor {
  TensorSpec spec;
  std::string bytes;
};

void write_raw(const std::filesystem::path& path, const std::vector<RawTensor>& all) {
  std::vector<TensorSpec> specs;
  specs.reserve(all.size());
  for (const RawTensor& tensor : all) specs.push_back(tensor.spec);
  SafetensorsWriter writer(path, specs);
  for (const RawTensor& tensor : all) writer.write(tensor.spec.name, std::as_bytes(std::span(tensor.bytes)));
  writer.finish();
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

TEST(CompressedTensors, AWeightComesBackBitForBit) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kFloat8_e4m3fn}) {
    for (const bool two_four : {true, false}) {
      for (const std::int64_t cols : {4, 12, 64, 100, 4096}) {
        const ScratchDirectory directory;
        const std::int64_t rows = cols == 4096 ? 700 : 5;  // several pieces of 1 MiB
        const Weight weight = random_weight(rows, cols, dtype);
        const LinearForm form = form_of(weight, two_four ? Encoding::kTwoFour : Encoding::kPlain);
        SafetensorsWriter writer(directory / "f", linear_tensors("m", form));
        write_linear(writer, "m", weight, form.encoding);
        writer.finish();
        const SafetensorsSource source(directory / "f");
        EXPECT_EQ(linear_tensor_names(source, "m").size(), source.tensors().size());
        const Weight read =
            read_linear(source, config_for(two_four, dtype == at::kFloat8_e4m3fn), "m", rows, cols);
        EXPECT_EQ(read.format, two_four ? tensors::WeightFormat::kTwoFour : tensors::WeightFormat::kDense);
        const at::Tensor a = tensors::to_dense_values(weight).view(at::kByte);
        EXPECT_TRUE(at::equal(tensors::to_dense_values(read).view(at::kByte), a)) << dtype << " " << cols;
        if (two_four) {
          EXPECT_TRUE(at::equal(read.mask, weight.mask));
          EXPECT_TRUE(at::equal(read.values.view(at::kByte), weight.values.view(at::kByte)));
        }
        if (read.quantized()) {
          EXPECT_TRUE(at::equal(read.scale, weight.scale));
          EXPECT_EQ(read.scale.scalar_type(), at::kBFloat16);
        }
      }
    }
  }
}

TEST(CompressedTensors, FilesTakeNineAndFiveBitsAWeight) {
  const std::int64_t weights = 128 * 512;
  for (const bool fp8 : {false, true}) {
    LinearForm form{Encoding::kTwoFour, 128, 512, fp8 ? DType::kFloat8E4M3 : DType::kBFloat16, std::nullopt};
    if (fp8) form.scale_dtype = DType::kBFloat16;
    std::int64_t bytes = 0;
    for (const TensorSpec& spec : linear_tensors("m", form))
      bytes += make_tensor_info(spec.dtype, spec.shape)->bytes;
    EXPECT_EQ(bytes * 8,
              weights * (fp8 ? 5 : 9) + 8 * 16 + (fp8 ? 128 * 16 : 0));  // + the shape, + the scales
  }
}

// The example of docs/formats.md.
std::vector<RawTensor> example() {
  return {{{"m.compressed", DType::kFloat8E4M3, {2, 4}}, "\x38\xC0\x48\x30" + std::string(3, '\0') + "\xBC"},
          {{"m.bitmask", DType::kUInt8, {2, 1}}, "\xC9\x33"},
          {{"m.shape", DType::kInt64, {2, 1}}, bytes_of<std::int64_t>({2, 8})},
          {{"m.weight_scale", DType::kFloat32, {2, 1}}, bytes_of<float>({1.0f, 2.0f})}};
}

std::string read_error(const std::vector<RawTensor>& file, std::int64_t rows = 2, std::int64_t cols = 8,
                       const CompressionConfig& config = config_for(true, true)) {
  const ScratchDirectory directory;
  write_raw(directory / "f", file);
  const SafetensorsSource source(directory / "f");
  return error_of([&] { read_linear(source, config, "m", rows, cols); });
}

TEST(CompressedTensors, ReadsTheDocumentedExample) {
  const ScratchDirectory directory;
  write_raw(directory / "f", example());
  const SafetensorsSource source(directory / "f");
  const Weight weight = read_linear(source, config_for(true, true), "m", 2, 8);
  const float expected[] = {1, 0, 0, -2, 0, 0, 4, 0.5, 0, 0, 0, 0, 0, -3, 0, 0};
  const at::Tensor dense = tensors::to_dense_float(weight);
  EXPECT_EQ(std::memcmp(dense.const_data_ptr<float>(), expected, sizeof expected), 0);
}

TEST(CompressedTensors, AcceptsTheFormsThatOthersWrite) {
  std::vector<RawTensor> file = example();
  file[2].spec.shape = {2};
  EXPECT_EQ(read_error(file), "no error");
  file[3].spec.shape = {2};
  EXPECT_EQ(read_error(file), "no error");
  file.push_back({{"m.weight_zero_point", DType::kFloat8E4M3, {2, 1}}, std::string(2, '\0')});
  EXPECT_EQ(read_error(file), "no error");
  file.back().bytes[1] = '\x38';
  expect_contains(read_error(file), "zero points other than 0");
  CompressionConfig per_tensor = config_for(true, true);
  per_tensor.groups[0].scheme.strategy = QuantizationScheme::Strategy::kTensor;
  file = example();
  file[3] = {{"m.weight_scale", DType::kFloat32, {1}}, bytes_of<float>({0.5f})};
  EXPECT_EQ(read_error(file, 2, 8, per_tensor), "no error");
  file[3].spec.shape = {};
  EXPECT_EQ(read_error(file, 2, 8, per_tensor), "no error");
}

TEST(CompressedTensors, EveryDefectNamesItsPlace) {
  const auto with = [](std::size_t index, const RawTensor& tensor) {
    std::vector<RawTensor> file = example();
    file[index] = tensor;
    return file;
  };
  const auto without = [](std::size_t index) {
    std::vector<RawTensor> file = example();
    file.erase(file.begin() + static_cast<std::ptrdiff_t>(index));
    return file;
  };
  EXPECT_EQ(read_error(example()), "no error");
  expect_contains(read_error(with(1, {{"m.bitmask", DType::kUInt8, {2, 1}}, "\xC9\x73"})),
                  "f: tensor 'm.bitmask': row 1, group 1 (columns 4 to 7) keeps 3 columns: 2:4 keeps two");
  expect_contains(read_error(with(1, {{"m.bitmask", DType::kUInt8, {2, 1}}, "\xC8\x33"})),
                  "row 0, group 0 (columns 0 to 3) keeps 1");
  expect_contains(read_error(with(0, {{"m.compressed", DType::kFloat8E4M3, {2, 4}},
                                      "\x38\xC0\x48\x30" + std::string(3, '\0') + "\x7f"})),
                  "tensor 'm.compressed': row 1, value 3 is NaN or infinite");
  expect_contains(read_error(with(0, {{"m.compressed", DType::kInt8, {2, 4}}, std::string(8, '\1')})),
                  "the weight is int8, but config.json says that it is float-quantized");
  expect_contains(read_error(with(0, {{"m.compressed", DType::kFloat8E4M3, {4, 2}}, std::string(8, '\1')})),
                  "expected [2, 4], got [4, 2]");
  expect_contains(read_error(with(1, {{"m.bitmask", DType::kInt8, {2, 1}}, "\xC9\x33"})),
                  "expected uint8, got int8");
  expect_contains(read_error(with(2, {{"m.shape", DType::kInt64, {2, 1}}, bytes_of<std::int64_t>({8, 2})})),
                  "expected a weight of [2, 8], got [8, 2]");
  expect_contains(read_error(with(2, {{"m.shape", DType::kInt64, {3}}, bytes_of<std::int64_t>({2, 8, 1})})),
                  "expected [2] or [2, 1], got [3]");
  expect_contains(read_error(with(3, {{"m.weight_scale", DType::kFloat32, {1}}, bytes_of<float>({1.0f})})),
                  "does not hold a scale a row for 2 rows");
  expect_contains(
      read_error(with(3, {{"m.weight_scale", DType::kFloat32, {1, 2}}, bytes_of<float>({1.0f, 1.0f})})),
      "does not hold a scale a row");
  for (const float bad : {0.0f, -1.0f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    expect_contains(
        read_error(with(3, {{"m.weight_scale", DType::kFloat32, {2, 1}}, bytes_of<float>({1.0f, bad})})),
        "the scale of row 1 is");
  }
  expect_contains(read_error(without(0)),
                  "tensor 'm.weight' is missing, and so are 'm.compressed' and 'm.weight_packed'");
  expect_contains(read_error(without(1)), "tensor 'm.bitmask' is missing");
  expect_contains(read_error(without(2)), "tensor 'm.shape' is missing");
  expect_contains(read_error(without(3)), "tensor 'm.weight_scale' is missing");
  std::vector<RawTensor> both = example();
  both.push_back({{"m.weight", DType::kFloat8E4M3, {2, 8}}, std::string(16, '\0')});
  expect_contains(read_error(both), "tensor 'm.compressed': the module has both this and 'm.weight'");
  expect_contains(read_error(example(), 2, 8, config_for(false, true)), "config.json says that it is not");
  expect_contains(read_error(example(), 2, 8, config_for(true, false)),
                  "the weight is float8_e4m3fn, but config.json says that it is not quantized");
  expect_contains(read_error(example(), 2, 6), "a multiple of 4, not 6");
}

TEST(CompressedTensors, DenseDefectsNameTheirPlaceToo) {
  const CompressionConfig none;
  const auto dense = [](DType dtype, std::vector<std::int64_t> shape, const std::string& bytes) {
    return std::vector<RawTensor>{{{"m.weight", dtype, std::move(shape)}, bytes}};
  };
  EXPECT_EQ(read_error(dense(DType::kFloat32, {1, 2}, bytes_of<float>({1, 2})), 1, 2, none), "no error");
  expect_contains(read_error(dense(DType::kFloat32, {1, 2}, bytes_of<float>({1, std::nanf("")})), 1, 2, none),
                  "row 0, value 1 is NaN");
  expect_contains(read_error(dense(DType::kFloat32, {2, 1}, bytes_of<float>({1, 2})), 1, 2, none),
                  "expected [1, 2], got [2, 1]");
  expect_contains(read_error(dense(DType::kFloat64, {1, 1}, std::string(8, '\0')), 1, 1, none),
                  "weights in float64 are not supported");
  expect_contains(
      read_error(dense(DType::kFloat32, {1, 2}, bytes_of<float>({1, 2})), 1, 2, config_for(false, true)),
      "config.json says that it is float-quantized");
  expect_contains(read_error(dense(DType::kFloat8E4M3, {1, 2}, "ab"), 1, 2, config_for(false, true)),
                  "'m.weight_scale' is missing");
}

TEST(CompressedTensors, AKeptMinusZeroIsReadAsZeroAndBitsPastTheLastColumnAreRefused) {
  const std::vector<RawTensor> file = {
      {{"m.compressed", DType::kBFloat16, {1, 2}}, bytes_of<std::uint16_t>({0x8000, 0x3f80})},
      {{"m.bitmask", DType::kUInt8, {1, 1}}, "\x0c"},
      {{"m.shape", DType::kInt64, {2, 1}}, bytes_of<std::int64_t>({1, 4})}};
  const ScratchDirectory directory;
  write_raw(directory / "f", file);
  const SafetensorsSource source(directory / "f");
  const Weight weight = read_linear(source, config_for(true, false), "m", 1, 4);
  EXPECT_EQ(static_cast<const std::uint16_t*>(weight.values.const_data_ptr())[0], 0);
  std::vector<RawTensor> spoilt = file;
  spoilt[1].bytes = "\x3c";
  expect_contains(read_error(spoilt, 1, 4, config_for(true, false)), "keeps 2 columns past its last one, 3");
}

// The load rule of docs/formats.md: while layers are read, anonymous memory stays within 1.1 times the
// weights.
TEST(SlowCompressedTensors, LoadingTakesNoMoreMemoryThanTheWeights) {
  const auto anonymous_bytes = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
    }
    return 0ll;
  };
  if (anonymous_bytes() == 0) GTEST_SKIP() << "no RssAnon in /proc/self/status";
  const ScratchDirectory directory;
  const int layers = 16;
  const std::int64_t rows = 4096;
  const std::int64_t cols = 8192;
  {
    const Weight weight = random_weight(rows, cols, at::kFloat8_e4m3fn);
    std::vector<TensorSpec> specs;
    for (int i = 0; i < layers; ++i) {
      for (TensorSpec& spec : linear_tensors(std::to_string(i), form_of(weight, Encoding::kTwoFour)))
        specs.push_back(std::move(spec));
    }
    SafetensorsWriter writer(directory / "f", specs);
    for (int i = 0; i < layers; ++i) write_linear(writer, std::to_string(i), weight, Encoding::kTwoFour);
    writer.finish();
  }
  const SafetensorsSource source(directory / "f");
  const long long before = anonymous_bytes();
  std::vector<Weight> loaded;
  std::int64_t stored = 0;
  long long peak = 0;
  for (int i = 0; i < layers; ++i) {
    loaded.push_back(read_linear(source, config_for(true, true), std::to_string(i), rows, cols));
    stored += loaded.back().stored_bytes();
    peak = std::max(peak, anonymous_bytes() - before);
  }
  RecordProperty("bytes_over_weights",
                 std::to_string(static_cast<double>(peak) / static_cast<double>(stored)));
  EXPECT_LE(static_cast<double>(peak), 1.1 * static_cast<double>(stored));
  EXPECT_GE(static_cast<double>(peak), 0.9 * static_cast<double>(stored));  // else the measurement is broken
}

}  // namespace
}  // namespace grille::checkpoint
