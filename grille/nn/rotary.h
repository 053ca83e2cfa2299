// Rotary position embedding (RoFormer, arXiv 2104.09864), pairs (i, i + head_dim / 2) as in Hugging Face's
// rotate_half.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace grille::nn {

struct RotaryConfig {
  enum class Scaling {
    kNone,
    kLinear,  // every frequency divided by `factor`
    kLlama3,  // low frequencies divided by `factor`, middle ones blended (transformers' `llama3` rope type)
  };
  double theta = 10000.0;
  std::int64_t head_dim = 0;
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  double low_frequency_factor = 1.0;
  double high_frequency_factor = 4.0;
  double original_max_positions = 8192.0;
};

// The head_dim / 2 frequencies, in radians a position; fp32 as transformers computes them.
std::vector<float> rotary_frequencies(const RotaryConfig& config);

// cos and sin for the positions of one step: float32 [tokens, head_dim / 2] each.
struct RotaryStep {
  at::Tensor cos;
  at::Tensor sin;

  // A copy on the device; itself if it is there.
  RotaryStep to(at::Device device) const { return {cos.to(device), sin.to(device)}; }
};

class RotaryTable {
 public:
  explicit RotaryTable(const RotaryConfig& config) : frequencies_(rotary_frequencies(config)) {}
  RotaryStep at_positions(const std::vector<std::int64_t>& positions) const;

 private:
  std::vector<float> frequencies_;
};

}  // namespace grille::nn
