#include "grille/compress/part_file.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "grille/checkpoint/scratch_directory.h"
#include "grille/compress/tiny_model.h"
#include "grille/quantize/fp8.h"

namespace grille::compress {
namespace {

using checkpoint::error_of;
using checkpoint::expect_contains;
using checkpoint::ScratchDirectory;

tensors::Weight two_four_weight() {
  const at::Tensor dense = at::randn({6, 20});
  dense.view({6, 5, 4}).narrow(2, 1, 2).zero_();
  return tensors::two_four_from_dense(dense, "w");
}

TEST(PartFile, GivesBackWeightsOfEveryForm) {
  const ScratchDirectory scratch;
  const tensors::Weight two_four = two_four_weight();
  std::map<std::string, tensors::Weight> weights = {
      {"model.layers.0.a", tensors::dense_weight(at::randn({3, 8}).to(at::kBFloat16))},
      {"model.layers.0.b", two_four},
      {"model.layers.0.c", quantize::quantize_fp8(two_four, at::kBFloat16, "c").weight},
      {"model.layers.0.d",
       quantize::quantize_fp8(tensors::dense_weight(at::randn({3, 8})), at::kFloat, "d").weight}};
  const at::Tensor norm = at::randn({8});
  write_part(scratch / "part.safetensors", weights, {{"model.layers.0.norm.weight", norm}}, {});
  const PartFile part(scratch / "part.safetensors");
  ASSERT_EQ(part.forms().size(), 4u);
  for (const auto& [name, weight] : weights) {
    const tensors::Weight read = part.weight(name);
    EXPECT_EQ(read.format, weight.format) << name;
    EXPECT_EQ(read.values.scalar_type(), weight.values.scalar_type()) << name;
    EXPECT_EQ(read.quantized(), weight.quantized()) << name;
    EXPECT_TRUE(tensors::to_dense_float(read).equal(tensors::to_dense_float(weight))) << name;
  }
  EXPECT_TRUE(part.source().read_tensor("model.layers.0.norm.weight").equal(norm));
  expect_contains(error_of([&] { part.weight("model.layers.0.e"); }), "model.layers.0.e");
}

TEST(PartFile, GivesBackReports) {
  const ScratchDirectory scratch;
  const std::vector<LayerReport> reports = {{"a", 0.5, 0.125, 0.01, 7, 1.5, 42},
                                            {"b", 0.0, {}, {}, 0, 0.25, {}}};
  write_part(scratch / "part.safetensors", {}, {}, reports, Reconstruction{0.25, 0.125, 3});
  const std::vector<LayerReport> read = PartFile(scratch / "part.safetensors").reports();
  ASSERT_EQ(read.size(), 2u);
  const auto reconstruction = PartFile(scratch / "part.safetensors").reconstruction();
  ASSERT_TRUE(reconstruction.has_value());
  EXPECT_EQ(reconstruction->error_before, 0.25);
  EXPECT_EQ(reconstruction->error, 0.125);
  EXPECT_EQ(reconstruction->epochs, 3);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read[i].name, reports[i].name);
    EXPECT_EQ(read[i].sparsity, reports[i].sparsity);
    EXPECT_EQ(read[i].relative_error, reports[i].relative_error);
    EXPECT_EQ(read[i].damping, reports[i].damping);
    EXPECT_EQ(read[i].saturated, reports[i].saturated);
    EXPECT_EQ(read[i].seconds, reports[i].seconds);
    EXPECT_EQ(read[i].swaps, reports[i].swaps);
  }
}

TEST(PartFile, AFileThatIsNoFinishedBlockIsAnError) {
  const ScratchDirectory scratch;
  write_tensors(scratch / "part.safetensors", {{"x", at::randn({2})}});
  expect_contains(error_of([&] { PartFile(scratch / "part.safetensors").reports(); }), "corrupt data");
  checkpoint::SafetensorsWriter writer(scratch / "other.safetensors", {}, {{"layers", "[{\"name\": 3}]"}});
  writer.finish();
  expect_contains(error_of([&] { PartFile(scratch / "other.safetensors").reports(); }), "corrupt data");
}

}  // namespace
}  // namespace grille::compress
