#include "grille/nn/rotary.h"

#include <cmath>
#include <numbers>

#include "grille/tensors/allocate.h"

namespace grille::nn {
namespace {

float llama3_frequency(const RotaryConfig& config, float frequency) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const double low = config.original_max_positions / config.low_frequency_factor;
  const double high = config.original_max_positions / config.high_frequency_factor;
  if (wavelength < high) return frequency;
  if (wavelength > low) return static_cast<float>(frequency / config.factor);
  const double blend = (config.original_max_positions / wavelength - config.low_frequency_factor) /
                       (config.high_frequency_factor - config.low_frequency_factor);
  return static_cast<float>((1.0 - blend) * frequency / config.factor + blend * frequency);
}

}  // namespace

std::vector<float> rotary_frequencies(const RotaryConfig& config) {
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < config.head_dim / 2; ++i) {
    // transformers computes the power in fp32; so do we, or long contexts drift apart.
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
    float frequency = 1.0f / std::pow(static_cast<float>(config.theta), exponent);
    switch (config.scaling) {
      case RotaryConfig::Scaling::kNone: break;
      case RotaryConfig::Scaling::kLinear: frequency = static_cast<float>(frequency / config.factor); break;
      case RotaryConfig::Scaling::kLlama3: frequency = llama3_frequency(config, frequency); break;
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

RotaryStep RotaryTable::at_positions(const std::vector<std::int64_t>& positions) const {
  const std::int64_t tokens = static_cast<std::int64_t>(positions.size());
  const std::int64_t half = static_cast<std::int64_t>(frequencies_.size());
  RotaryStep step{tensors::empty({tokens, half}, at::kFloat), tensors::empty({tokens, half}, at::kFloat)};
  float* cos = step.cos.mutable_data_ptr<float>();
  float* sin = step.sin.mutable_data_ptr<float>();
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(positions[t]) * frequencies_[i];
      cos[t * half + i] = std::cos(angle);
      sin[t * half + i] = std::sin(angle);
    }
  }
  return step;
}

}  // namespace grille::nn
