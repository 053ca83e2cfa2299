#include "grille/models/load_notes.h"

#include <fmt/format.h>

namespace grille::models {
namespace {

using checkpoint::LinearForm;

struct Counts {
  int found_two_four = 0;
  int integers = 0;
  int dequantized = 0;
  int full_inputs = 0;
};

void count(const LinearForm& form, const tensors::Weight& weight, Counts& counts) {
  if (weight.format == tensors::WeightFormat::kTwoFour && !form.two_four()) ++counts.found_two_four;
  if (form.scale_dtype && !weight.quantized()) ++counts.dequantized;
  if (form.dtype == DType::kInt8 && weight.quantized()) ++counts.integers;
  if (form.inputs == checkpoint::QuantizationScheme::Inputs::kFp8Groups) ++counts.full_inputs;
}

}  // namespace

std::vector<std::string> load_notes(const ModelFiles& files, const Decoder& decoder) {
  Counts counts;
  for (std::size_t layer = 0; layer < decoder.layers.size(); ++layer) {
    for (const Slot slot : kSlots) {
      const auto index = static_cast<std::int64_t>(layer);
      const auto [rows, cols] = slot_shape(files.config, slot);
      const auto* linear = dynamic_cast<const nn::WeightLinear*>(&decoder.layers[layer].linear(slot));
      if (linear == nullptr) continue;
      count(checkpoint::stored_form(*files.tensors, files.compression, module_name(index, slot), rows, cols),
            linear->weight(), counts);
    }
  }
  std::vector<std::string> notes;
  const auto add = [&](int number, const char* text) {
    if (number > 0) notes.push_back(fmt::format("{} linear layers {}", number, text));
  };
  add(counts.found_two_four,
      "are 2:4 and stored with their zeros: they run as 2:4 (compact them: grille convert)");
  add(counts.integers, "are int8: they run as bfloat16 integers with their scales, exactly");
  add(counts.dequantized, "are dequantized to the dtype of their scales while they are loaded");
  add(counts.full_inputs, "ask for inputs rounded to FP8 by groups: their inputs stay as they are");
  return notes;
}

}  // namespace grille::models
