#include "grille/compress/pipeline.h"

#include <limits>

#include <ATen/ops/randn.h>
#include <ATen/ops/topk.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "grille/base/interrupt.h"
#include "grille/checkpoint/safetensors.h"
#include "grille/compress/tiny_model.h"
#include "grille/models/load.h"
#include "grille/text/text_files.h"

namespace grille::compress {
namespace {

namespace fs = std::filesystem;
using checkpoint::error_of;
using checkpoint::expect_contains;
using checkpoint::ScratchDirectory;

Options prune_options(Method method) {
  Options options;
  options.prune.emplace();
  options.prune->method = method;
  return options;
}

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = text::read_file(entry.path());
  return files;
}

// Asks for an interrupt when block `block` is done.
class InterruptAfter final : public Progress {
 public:
  explicit InterruptAfter(std::int64_t block) : block_(block) {}
  void start(std::string_view, std::int64_t, std::string_view) override {}
  void update(std::int64_t done, std::string_view) override {
    if (done == block_) request_interrupt();
  }
  void finish() override {}

 private:
  std::int64_t block_;
};

class Pipeline : public testing::Test {
 protected:
  Report run(const models::ModelFiles& files, const Options& options, const std::string& name,
             const std::vector<text::CalibrationWindow>& calibration = {}) {
    return compress::run(files, options, calibration, scratch_ / name, no_progress());
  }
  at::Tensor dense(const std::string& name, std::int64_t layer, models::Slot slot) {
    return tensors::to_dense_float(
        models::load_weight(models::open_model((scratch_ / name).string()), layer, slot));
  }

  const c10::InferenceMode inference_;
  const ScratchDirectory scratch_;
  const std::map<std::string, at::Tensor> tensors_ = tiny_tensors();
  const TinyModel model_{tensors_};
};

TEST_F(Pipeline, ConvertKeepsEveryBitAndName) {
  const Report report = run(model_.open(), {}, "out");
  const checkpoint::SafetensorsSource out(scratch_ / "out");
  ASSERT_EQ(out.tensors().size(), tensors_.size());
  for (const auto& [name, tensor] : tensors_) EXPECT_TRUE(out.read_tensor(name).equal(tensor)) << name;
  EXPECT_EQ(report.file_bytes_out,
            static_cast<std::int64_t>(fs::file_size(scratch_ / "out/model.safetensors")));
  EXPECT_EQ(report.layers.size(), 14u);
}

TEST_F(Pipeline, ConvertToANarrowerTypeRoundsAndRefusesWhatDoesNotFit) {
  Options options;
  options.dtype = DType::kFloat16;
  run(model_.open(), options, "half");
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  const checkpoint::SafetensorsSource out(scratch_ / "half");
  EXPECT_TRUE(out.read_tensor(name).equal(tensors_.at(name).to(at::kHalf)));
  std::map<std::string, at::Tensor> large = tensors_;
  large[name] = large[name].clone();
  large[name][3][5] = 70000.0f;  // above 65504
  const TinyModel other(large);
  const std::string message = error_of([&] { run(other.open(), options, "large"); });
  expect_contains(message, "model.layers.1.mlp.up_proj");
  expect_contains(message, "float16");
  EXPECT_FALSE(fs::exists(scratch_ / "large"));
}

TEST_F(Pipeline, ReportsWeightsThatFp8CutsOff) {
  // A row whose scale is too small for float16: 1.4 of its smallest number becomes 1 (see
  // quantize/fp8_test.cc).
  std::map<std::string, at::Tensor> tiny = tensors_;
  at::Tensor& weight = tiny["model.layers.1.mlp.up_proj.weight"];
  weight = weight.clone();
  weight[3].zero_();
  weight[3][5] = 627.2f * 0x1p-24f;
  const TinyModel other(tiny);
  Options options;
  options.dtype = DType::kFloat16;
  options.quantize = Quantization::kFp8Dynamic;
  std::int64_t saturated = 0;
  for (const LayerReport& layer : run(other.open(), options, "out").layers) {
    saturated += layer.saturated;
    EXPECT_EQ(layer.saturated > 0, layer.name == "model.layers.1.mlp.up_proj") << layer.name;
  }
  EXPECT_EQ(saturated, 1);
}

TEST_F(Pipeline, MagnitudeKeepsTheTwoLargestOfFour) {
  run(model_.open(), prune_options(Method::kMagnitude), "out");
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    for (const models::Slot slot : models::kSlots) {
      const at::Tensor source = tensors_.at(models::module_name(layer, slot) + ".weight");
      const at::Tensor groups = source.view({source.size(0), -1, 4});
      const at::Tensor third = std::get<0>(at::topk(groups.abs(), 3, 2)).select(2, 2).unsqueeze(2);
      const at::Tensor expected = groups.mul(groups.abs().gt(third)).view_as(source);
      EXPECT_TRUE(dense("out", layer, slot).equal(expected)) << models::module_name(layer, slot);
    }
  }
}

TEST_F(Pipeline, DenseAndCompressedFormatsHoldTheSameWeights) {
  Options options = prune_options(Method::kSparseGpt);
  options.quantize = Quantization::kFp8Dynamic;
  run(model_.open(), options, "compressed", tiny_calibration());
  options.format = OutputFormat::kDense;
  run(model_.open(), options, "dense", tiny_calibration());
  for (const models::Slot slot : models::kSlots)
    EXPECT_TRUE(dense("compressed", 1, slot).equal(dense("dense", 1, slot))) << models::slot_name(slot);
  EXPECT_TRUE(
      checkpoint::SafetensorsSource(scratch_ / "compressed").has("model.layers.0.mlp.up_proj.bitmask"));
  EXPECT_FALSE(checkpoint::SafetensorsSource(scratch_ / "dense").has("model.layers.0.mlp.up_proj.bitmask"));
  // And what was written can be rewritten: the embedding is not FP8 though its neighbours are.
  run(models::open_model((scratch_ / "compressed").string()), options, "rewritten", tiny_calibration());
  Options convert;
  convert.format = OutputFormat::kDense;
  run(models::open_model((scratch_ / "compressed").string()), convert, "converted");
  EXPECT_TRUE(dense("converted", 0, models::Slot::kUp).equal(dense("dense", 0, models::Slot::kUp)));
}

TEST_F(Pipeline, ResumingGivesTheSameBytesAndOnlyForTheSameRun) {
  const Options options = prune_options(Method::kSparseGpt);
  run(model_.open(), options, "whole", tiny_calibration());
  InterruptAfter interrupt(1);
  const std::string stopped = error_of(
      [&] { compress::run(model_.open(), options, tiny_calibration(), scratch_ / "stopped", interrupt); });
  clear_interrupt();
  expect_contains(stopped, "cancelled");
  ASSERT_TRUE(fs::exists(scratch_ / "stopped.partial/parts/block-00000.safetensors"));

  Options resume = options;
  resume.resume = true;
  const auto refusal = [&](const models::ModelFiles& files, const Options& with,
                           const std::vector<text::CalibrationWindow>& calibration) {
    return error_of([&] { run(files, with, "stopped", calibration); });
  };
  auto fewer = tiny_calibration();
  fewer.pop_back();
  expect_contains(refusal(model_.open(), resume, fewer), "other options");
  expect_contains(refusal(model_.open(), resume, tiny_calibration(1)), "other options");
  Options other = resume;
  other.prune->method = Method::kWanda;
  expect_contains(refusal(model_.open(), other, tiny_calibration()), "other options");
  const TinyModel retrained;  // other weights of the same shapes
  expect_contains(refusal(retrained.open(), resume, tiny_calibration()), "another model");

  run(model_.open(), resume, "stopped", tiny_calibration());
  EXPECT_EQ(contents(scratch_ / "stopped"), contents(scratch_ / "whole"));
}

TEST_F(Pipeline, ReconstructedBlocksAreReportedAndTakenUpAgain) {
  Options options = prune_options(Method::kWanda);
  options.prune->refine = Refine::kMask;
  options.prune->reconstruct = ReconstructOptions{.epochs = 3, .rate = 1e-3};
  const Report whole = run(model_.open(), options, "whole", tiny_calibration());
  ASSERT_EQ(whole.blocks.size(), 2u);
  for (const auto& [index, block] : whole.blocks) EXPECT_LT(block.error, block.error_before) << index;
  for (const LayerReport& layer : whole.layers) {
    EXPECT_EQ(layer.sparsity, 0.5) << layer.name;
    EXPECT_TRUE(layer.swaps.has_value()) << layer.name;
  }
  InterruptAfter interrupt(1);
  error_of(
      [&] { compress::run(model_.open(), options, tiny_calibration(), scratch_ / "stopped", interrupt); });
  clear_interrupt();
  options.resume = true;
  const Report resumed = run(model_.open(), options, "stopped", tiny_calibration());
  EXPECT_EQ(contents(scratch_ / "stopped"), contents(scratch_ / "whole"));
  EXPECT_EQ(resumed.blocks.at(0).error, whole.blocks.at(0).error);
  EXPECT_EQ(resumed.blocks.at(1).error, whole.blocks.at(1).error);
}

TEST_F(Pipeline, OptionsThatDoNotFitTheModelAreRefused) {
  const models::ModelFiles files = model_.open();
  const auto refusal = [&](const Options& options, const std::vector<text::CalibrationWindow>& calibration) {
    return error_of([&] { check_options(files, options, calibration); });
  };
  expect_contains(refusal(prune_options(Method::kWanda), {}), "--calibration");
  Options options = prune_options(Method::kMagnitude);
  options.prune->pattern = prune::parse_pattern("4:16", std::nullopt);
  expect_contains(refusal(options, {}), "40 input features");
  options.prune->ignore = {"re:.*down_proj"};
  EXPECT_EQ(refusal(options, {}), "no error");
  options.prune->targets = {"nothing"};
  expect_contains(refusal(options, {}), "--targets nothing");
  Options damping = prune_options(Method::kSparseGpt);
  for (const double bad : {0.0, -1.0, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    damping.prune->damping = bad;
    expect_contains(refusal(damping, tiny_calibration()), "--damping");
  }
  Options reconstruct = prune_options(Method::kWanda);
  reconstruct.prune->reconstruct.emplace();
  auto one_window = tiny_calibration();
  one_window.resize(1);
  expect_contains(refusal(reconstruct, one_window), "two calibration windows");
  Options refine = prune_options(Method::kWanda);
  refine.prune->refine = Refine::kMask;
  refine.prune->pattern = prune::parse_pattern("unstructured", std::nullopt);
  expect_contains(refusal(refine, tiny_calibration()), "--refine mask");
  auto long_window = tiny_calibration();
  long_window[0].segment_lengths = {65};
  expect_contains(refusal(prune_options(Method::kWanda), long_window), "context of 64");
}

// The weights' bytes follow from the shapes; the header is what the estimate leaves out.
TEST_F(Pipeline, TheEstimateOfTheSizeIsTheWeightsBytes) {
  for (const bool fp8 : {false, true}) {
    Options options = prune_options(Method::kMagnitude);
    if (fp8) options.quantize = Quantization::kFp8Dynamic;
    const std::string name = fp8 ? "fp8" : "plain";
    run(model_.open(), options, name);
    const checkpoint::SafetensorsSource out(scratch_ / name);
    std::int64_t weights = 0;
    for (const auto& [tensor, info] : out.tensors()) {
      const bool counted = tensor.ends_with(".compressed") || tensor.ends_with(".bitmask") ||
                           tensor == "model.embed_tokens.weight";
      if (counted) weights += info.bytes;
    }
    const Estimate cost = estimate(model_.open(), options, {});
    EXPECT_EQ(cost.file_bytes_out, weights) << name;
    EXPECT_GT(cost.seconds, 0.0);
    EXPECT_GT(cost.peak_host_bytes, weights);
    const Estimate calibrated = estimate(model_.open(), options, tiny_calibration());
    EXPECT_GT(calibrated.seconds, cost.seconds);
    EXPECT_GT(calibrated.peak_host_bytes, cost.peak_host_bytes);
  }
}

}  // namespace
}  // namespace grille::compress
