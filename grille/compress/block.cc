#include "grille/compress/block.h"

#include <algorithm>
#include <chrono>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/compress/prune_layer.h"
#include "grille/compress/reconstruct.h"
#include "grille/compress/selection.h"
#include "grille/quantize/fp8.h"
#include "grille/quantize/integer.h"
#include "grille/tensors/finite.h"
#include "grille/tensors/views.h"

namespace grille::compress {
namespace {

using models::Slot;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

at::ScalarType stored_dtype(const tensors::Weight& weight, const models::ModelFiles& files,
                            const Options& options) {
  if (options.dtype) return tensors::torch_dtype(*options.dtype);
  return weight.quantized() ? tensors::torch_dtype(files.config.dtype) : weight.values.scalar_type();
}

// `values` in `dtype`, which must be able to hold them.
at::Tensor stored_values(const at::Tensor& values, at::ScalarType dtype, const std::string& name) {
  at::Tensor result = values.to(dtype);
  const at::Tensor flat = result.contiguous();
  const std::int64_t bad =
      tensors::first_not_finite(flat.const_data_ptr(), tensors::dtype_of(flat), flat.numel());
  check(bad < 0, ErrorCode::kInvalidArgument,
        "{}: a weight is too large for {}; store the model in another --dtype", name,
        dtype_name(tensors::dtype_of(result)));
  return result;
}

double share_of_zeros(const tensors::Weight& weight) {
  const double kept = weight.values.ne(0).sum().item<double>();
  return 1.0 - kept / (static_cast<double>(weight.rows) * static_cast<double>(weight.cols));
}

// Whether `weight` is what quantized() would make.
bool is_quantized_so(const tensors::Weight& weight, Quantization quantize, const Options& options) {
  const bool integers = weight.values.scalar_type() == at::kChar;
  if (!weight.quantized() || weight.zero_point.defined() || weight.group_index.defined()) return false;
  switch (quantize) {
    case Quantization::kNone: return false;
    case Quantization::kFp8Dynamic: return !integers && weight.scaled_by_row();
    case Quantization::kInt8Dynamic: return integers && weight.bits == 8 && weight.scaled_by_row();
    case Quantization::kInt4: {
      const bool group = weight.scaled_by_row()
                             ? options.group_size == 0
                             : weight.block_rows == 1 && weight.block_cols == options.group_size;
      return integers && weight.bits == 4 && group;
    }
  }
  return false;
}

tensors::Weight quantized(const tensors::Weight& weight, const Options& options, Quantization quantize,
                          at::ScalarType scale_dtype, const std::string& name, std::int64_t* saturated) {
  if (quantize == Quantization::kNone) return weight;
  if (quantize != Quantization::kFp8Dynamic) {
    const bool int4 = quantize == Quantization::kInt4;
    return quantize::quantize_integer(weight, int4 ? 4 : 8, int4 ? options.group_size : 0, scale_dtype, name);
  }
  quantize::Fp8Result result = quantize::quantize_fp8(weight, scale_dtype, name);
  if (saturated != nullptr) *saturated = result.saturated;
  return std::move(result.weight);
}

// One block in work: its layer as it runs now, and what has become of its weights.
class BlockWork {
 public:
  BlockWork(const models::ModelFiles& files, const Options& options, std::int64_t index)
      : files_(files), options_(options), index_(index) {}

  void load_layer() {
    models::LoadOptions load;
    load.compute_dtype = options_.compute_dtype;
    load.round_activations = false;
    layer_ = models::load_layer(files_, index_, load);
  }
  models::DecoderLayer& layer() { return layer_; }

  // Prunes the slots of `wanted`; statistics are in the order of models::shared_inputs().
  void prune(const std::vector<Slot>& wanted,
             const std::vector<std::unique_ptr<prune::InputStatistics>>& statistics) {
    for (std::size_t group = 0; group < models::shared_inputs().size(); ++group) {
      const prune::InputStatistics* inputs = group < statistics.size() ? statistics[group].get() : nullptr;
      at::Tensor hessian;
      for (const Slot slot : models::shared_inputs()[group]) {
        if (std::find(wanted.begin(), wanted.end(), slot) == wanted.end()) continue;
        throw_if_interrupted();
        if (inputs != nullptr && !hessian.defined()) {
          check(inputs->finite(), ErrorCode::kCorruptData,
                "{}: its inputs are not finite on the calibration text", models::module_name(index_, slot));
          hessian = inputs->hessian();
        }
        prune_slot(slot, inputs, hessian);
      }
    }
  }

  void keep(Slot slot) {
    const std::string name = models::module_name(index_, slot);
    LayerReport report{.name = name};
    const tensors::Weight weight = models::load_weight(files_, index_, slot);
    tensors::Weight stored =
        stored_weight(weight, files_, options_, options_.quantize, name, &report.saturated);
    store(slot, std::move(stored), std::move(report));
  }

  // Trains what prune() left so that the block gives `targets`.
  void reconstruct(const CalibrationRun& calibration, const std::vector<at::Tensor>& targets) {
    const auto begin = std::chrono::steady_clock::now();
    reconstruction_ = compress::reconstruct(layer_, index_, calibration, targets,
                                            *options_.prune->reconstruct, options_.seed, pruned_);
    const double seconds = seconds_since(begin) / static_cast<double>(pruned_.size());
    for (const auto& [slot, weight] : pruned_) {
      reports_[slot].seconds += seconds;
      store_pruned(slot, weight, reports_[slot]);
    }
  }

  BlockResult finish() {
    BlockResult result{std::move(weights_), {}, reconstruction_};
    for (auto& [slot, report] : reports_) result.reports.push_back(std::move(report));
    return result;
  }

 private:
  void prune_slot(Slot slot, const prune::InputStatistics* statistics, const at::Tensor& hessian) {
    const auto begin = std::chrono::steady_clock::now();
    const std::string name = models::module_name(index_, slot);
    const tensors::Weight source = models::load_weight(files_, index_, slot);
    const at::Tensor dense = tensors::to_dense_float(source);
    const PrunedLayer pruned = prune_layer(dense, *options_.prune, statistics, hessian);
    LayerReport report{.name = name, .damping = pruned.damping, .swaps = pruned.swaps};
    if (hessian.defined()) report.relative_error = prune::relative_error(dense, pruned.weight, hessian);

    dtypes_[slot] = stored_dtype(source, files_, options_);
    report.seconds = seconds_since(begin);
    store_pruned(slot, pruned.weight, std::move(report));
    if (options_.prune->reconstruct) pruned_[slot] = pruned.weight;
  }

  // `weight` float32, in the form in which the checkpoint will hold it.
  void store_pruned(Slot slot, const at::Tensor& weight, LayerReport report) {
    const at::Tensor values = stored_values(weight, dtypes_.at(slot), report.name);
    tensors::Weight stored = options_.prune->pattern.is_two_four()
                                 ? tensors::two_four_from_dense(values, report.name)
                                 : tensors::dense_weight(values);
    stored =
        quantized(stored, options_, options_.quantize, values.scalar_type(), report.name, &report.saturated);
    store(slot, std::move(stored), std::move(report));
  }

  void store(Slot slot, tensors::Weight weight, LayerReport report) {
    report.sparsity = share_of_zeros(weight);
    auto& place = layer_.linears[static_cast<std::size_t>(slot)];
    if (place != nullptr) place = static_cast<nn::WeightLinear&>(*place).with_weight(weight);
    weights_[slot] = std::move(weight);
    reports_[slot] = std::move(report);
  }

  const models::ModelFiles& files_;
  const Options& options_;
  std::int64_t index_;
  models::DecoderLayer layer_;
  std::map<Slot, tensors::Weight> weights_;
  std::map<Slot, LayerReport> reports_;
  std::map<Slot, at::ScalarType> dtypes_;  // in which pruned weights are stored
  std::map<Slot, at::Tensor> pruned_;      // float32, kept for reconstruct()
  std::optional<Reconstruction> reconstruction_;
};

void prune_block(BlockWork& work, const PruneOptions& options, const std::vector<Slot>& wanted,
                 std::int64_t index, CalibrationRun* calibration) {
  if (calibration == nullptr) return work.prune(wanted, {});
  std::vector<at::Tensor> dense_outputs;
  // The first pass runs the block while all of it is dense.
  const auto collect = [&](const std::vector<Slot>& slots) {
    const bool first = options.reconstruct && dense_outputs.empty();
    return calibration->collect(work.layer(), index, slots, first ? &dense_outputs : nullptr);
  };
  if (!options.true_sequential) {
    work.prune(wanted, collect(wanted));
  } else {
    for (const std::vector<Slot>& group : models::shared_inputs()) {
      std::vector<Slot> now;
      std::copy_if(group.begin(), group.end(), std::back_inserter(now),
                   [&](Slot slot) { return std::find(wanted.begin(), wanted.end(), slot) != wanted.end(); });
      if (!now.empty()) work.prune(now, collect(now));
    }
  }
  if (options.reconstruct) work.reconstruct(*calibration, dense_outputs);
}

}  // namespace

tensors::Weight stored_weight(const tensors::Weight& weight, const models::ModelFiles& files,
                              const Options& options, Quantization quantize, const std::string& name,
                              std::int64_t* saturated) {
  const bool stays = quantize == Quantization::kNone ? !options.dtype.has_value()
                                                     : is_quantized_so(weight, quantize, options);
  if (weight.quantized() && stays) return weight;
  tensors::Weight result = weight;
  const at::ScalarType dtype = stored_dtype(weight, files, options);
  if (weight.quantized()) {
    const at::Tensor values =
        stored_values(tensors::to_dense_values(tensors::dequantized(weight)), dtype, name);
    result = weight.format == tensors::WeightFormat::kTwoFour ? tensors::two_four_from_dense(values, name)
                                                              : tensors::dense_weight(values);
  } else if (weight.values.scalar_type() != dtype) {
    result.values = stored_values(weight.values, dtype, name);
  }
  return quantized(result, options, quantize, dtype, name, saturated);
}

BlockResult process_block(const models::ModelFiles& files, const Options& options, std::int64_t index,
                          CalibrationRun* calibration) {
  BlockWork work(files, options, index);
  const std::vector<Slot> wanted = options.prune ? pruned_slots(*options.prune, index) : std::vector<Slot>();
  if (calibration != nullptr) work.load_layer();
  if (!wanted.empty()) prune_block(work, *options.prune, wanted, index, calibration);
  for (const Slot slot : models::kSlots) {
    if (std::find(wanted.begin(), wanted.end(), slot) == wanted.end()) work.keep(slot);
  }
  if (calibration != nullptr && index < last_pruned_block(*options.prune, files.config.num_layers))
    calibration->advance(work.layer(), index);
  return work.finish();
}

}  // namespace grille::compress
