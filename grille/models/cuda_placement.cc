#include "grille/models/cuda_placement.h"

#include <fmt/format.h>

namespace grille::models {

std::shared_ptr<const nn::CudaWeight> CudaPlacement::weight_of(
    std::span<const nn::WeightLinear* const> layers, bool interleave) {
  std::shared_ptr<const nn::CudaWeight> weight = nn::make_cuda_weight(
      layers, {.device = device_, .compute = compute_, .interleave = interleave}, workspace_);
  ++formats_[weight->format()];
  return weight;
}

void CudaPlacement::place_group(DecoderLayer& layer, std::span<const Slot> slots) {
  std::vector<const nn::WeightLinear*> fixed;
  for (const Slot slot : slots) fixed.push_back(&dynamic_cast<const nn::WeightLinear&>(layer.linear(slot)));
  const bool together = nn::fit_in_one_cuda_weight(fixed);
  const bool interleave = together && slots.front() == Slot::kGate;
  std::shared_ptr<const nn::CudaWeight> weight;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (i == 0 || !together) {
      weight = together ? weight_of(fixed, interleave) : weight_of({&fixed[i], 1}, false);
      first = 0;
    }
    const std::int64_t rows = fixed[i]->out_features();
    auto placed = std::make_unique<nn::CudaLinear>(weight, fixed[i]->in_features(), rows, first,
                                                   interleave ? std::int64_t{2} : std::int64_t{1});
    first += interleave ? 1 : rows;
    layer.linears[static_cast<std::size_t>(slots[i])] = std::move(placed);
  }
}

void CudaPlacement::place_layer(DecoderLayer& layer) {
  for (const std::vector<Slot>& slots : shared_inputs()) place_group(layer, slots);
  for (at::Tensor* norm :
       {&layer.input_norm, &layer.post_attention_norm, &layer.query_norm, &layer.key_norm}) {
    if (norm->defined()) *norm = norm->to(device_);
  }
}

void CudaPlacement::place_frame(Decoder& decoder) {
  tensors::Weight& embedding = decoder.embedding;
  const auto& head = dynamic_cast<const nn::WeightLinear&>(*decoder.head);
  const bool shared = head.weight().values.is_alias_of(embedding.values) && !embedding.quantized() &&
                      embedding.values.scalar_type() == compute_;
  embedding.values = embedding.values.to(device_);
  if (embedding.quantized()) embedding.scale = embedding.scale.to(device_);
  decoder.norm = decoder.norm.to(device_);
  std::shared_ptr<const nn::CudaWeight> weight;
  if (shared) {
    weight = nn::dense_cuda_weight(embedding.values, head.bias());
    ++formats_[weight->format()];
  } else {
    const nn::WeightLinear* source = &head;
    weight = weight_of({&source, 1}, false);
  }
  decoder.head = std::make_unique<nn::CudaLinear>(weight, head.in_features(), head.out_features(), 0, 1);
}

std::string CudaPlacement::summary() const {
  std::string text;
  for (const auto& [format, count] : formats_)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, format);
  return text;
}

}  // namespace grille::models
