#include "grille/models/differentiable_block.h"

#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "grille/models/tiny_decoder.h"

namespace grille::models {
namespace {

const std::vector<std::int64_t> kLengths = {5, 1, 11};

nn::RotaryStep rotary_of(const Decoder& decoder) {
  std::vector<std::int64_t> positions;
  for (const std::int64_t length : kLengths) {
    for (std::int64_t i = 0; i < length; ++i) positions.push_back(i);
  }
  return decoder.rotary().at_positions(positions);
}

at::Tensor kernels_forward(const Decoder& decoder, const at::Tensor& hidden) {
  const c10::InferenceMode inference;
  nn::SegmentAttention attention(kLengths);
  return decoder.layers[0].forward(hidden, rotary_of(decoder), decoder.config(), 0, attention).clone();
}

TEST(DifferentiableBlock, ForwardIsTheKernels) {
  for (const bool with_head_norms : {false, true}) {
    Decoder decoder = tiny_decoder();
    if (with_head_norms) {
      decoder.layers[0].query_norm = at::randn({8}).abs();
      decoder.layers[0].key_norm = at::randn({8}).abs();
    }
    const at::Tensor hidden = at::randn({17, 32});
    const at::Tensor expected = kernels_forward(decoder, hidden);
    const at::Tensor found = DifferentiableBlock(decoder.layers[0])
                                 .forward(hidden, rotary_of(decoder), decoder.config(), kLengths);
    // Sums of at most 40 fp32 products, five layers deep.
    EXPECT_LT(found.sub(expected).norm().item<double>(), 1e-5 * expected.norm().item<double>());
  }
}

TEST(DifferentiableBlock, GradientsAreThoseOfDifferences) {
  const Decoder decoder = tiny_decoder();
  const at::Tensor hidden = at::randn({17, 32});
  const at::Tensor direction = at::randn({17, 32});  // loss: <output, direction>
  for (const Slot slot : kSlots) {
    DifferentiableBlock block(decoder.layers[0]);
    at::Tensor& weight = block.weights[static_cast<std::size_t>(slot)];
    weight.set_requires_grad(true);
    const auto loss = [&] {
      return block.forward(hidden, rotary_of(decoder), decoder.config(), kLengths).mul(direction).sum();
    };
    loss().backward();
    const at::Tensor gradient = weight.grad();
    const at::Tensor step = at::randn(weight.sizes()).mul(1e-3);
    const at::Tensor at_weight = weight.detach();
    weight = at_weight.add(step);
    const double above = loss().item<double>();
    weight = at_weight.sub(step);
    const double below = loss().item<double>();
    const double expected = gradient.mul(step).sum().item<double>();
    // The third derivative's term (1e-6) and fp32 rounding of losses near 100 (1e-5), beside gradients of
    // 0.1.
    EXPECT_NEAR((above - below) / 2, expected, 0.02 * std::abs(expected) + 1e-4) << slot_name(slot);
  }
}

}  // namespace
}  // namespace grille::models
