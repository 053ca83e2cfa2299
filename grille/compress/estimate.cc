// What a run will cost.
#include <algorithm>
#include <chrono>

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "grille/compress/pipeline.h"
#include "grille/compress/selection.h"
#include "grille/kernels/add_gram.h"
#include "grille/kernels/matmul.h"
#include "grille/prune/admm.h"
#include "grille/prune/alps.h"
#include "grille/prune/refine.h"
#include "grille/tensors/views.h"

namespace grille::compress {
namespace {

using models::Slot;

// Floating-point operations a second of what pruning spends its time with, at the model's own width.
struct Rates {
  double forward = 0.0;  // a linear layer in the compute dtype
  double fp32 = 0.0;     // the same in float32
  double fp64 = 0.0;     // a Gram matrix
};

template <typename Work>
double measured_rate(double operations, Work&& work) {
  work();
  const auto begin = std::chrono::steady_clock::now();
  double seconds = 0.0;
  double done = 0.0;
  while (seconds < 0.05) {
    work();
    done += operations;
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return done / seconds;
}

Rates measured_rates(std::int64_t width, at::ScalarType dtype) {
  constexpr std::int64_t kTokens = 512;
  const std::int64_t side = std::clamp<std::int64_t>(width, 256, 2048);
  const double square = static_cast<double>(side) * static_cast<double>(side);
  const at::Tensor x = at::ones({kTokens, side}, dtype);
  const at::Tensor w = at::ones({side, side}, dtype);
  at::Tensor y = at::empty({kTokens, side}, dtype);
  const at::Tensor inputs = x.to(at::kFloat);
  at::Tensor gram = at::zeros({side, side}, at::kDouble);
  Rates rates;
  const at::Tensor w32 = w.to(at::kFloat);
  at::Tensor y32 = at::empty({kTokens, side}, at::kFloat);
  rates.fp32 = measured_rate(2.0 * kTokens * square, [&] {
    kernels::matmul_dense({tensors::matrix_view(inputs)}, {tensors::matrix_view(w32)},
                          {tensors::matrix_view(y32)});
  });
  rates.forward = measured_rate(2.0 * kTokens * square, [&] {
    kernels::matmul_dense({tensors::matrix_view(x)}, {tensors::matrix_view(w)}, {tensors::matrix_view(y)});
  });
  rates.fp64 = measured_rate(kTokens * square, [&] {
    kernels::add_gram(tensors::matrix_view(inputs), gram.mutable_data_ptr<double>());
  });
  return rates;
}

double product(std::int64_t a, std::int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

struct Shapes {
  double block_weights = 0.0;      // of the linear layers of one block
  double embedding_weights = 0.0;  // embedding and untied head
  double largest_input = 0.0;      // in_features of the widest layer
};

Shapes shapes_of(const models::DecoderConfig& config) {
  Shapes shapes;
  for (const Slot slot : models::kSlots) {
    const auto [rows, cols] = models::slot_shape(config, slot);
    shapes.block_weights += product(rows, cols);
    shapes.largest_input = std::max(shapes.largest_input, static_cast<double>(cols));
  }
  shapes.embedding_weights =
      product(config.vocab_size, config.hidden_size) * (config.tie_word_embeddings ? 1 : 2);
  return shapes;
}

// Operations in fp64 on one layer, beside its inputs' Gram matrix: bounds, but for ALPS, which ends by itself
// and took about a tenth of its bound's time on SmolLM2-135M.
double layer_operations(const PruneOptions& prune, std::int64_t rows, std::int64_t cols) {
  const double multiply = 2.0 * static_cast<double>(cols) * product(rows, cols);
  const double square = 2.0 * static_cast<double>(cols) * product(cols, cols);
  constexpr double kAlpsShare = 0.1;
  double operations = 2.0 * multiply;  // the reported error
  switch (prune.method) {
    case Method::kSparseGpt: operations += multiply + square; break;
    case Method::kAdmm:
      operations += static_cast<double>(prune::AdmmOptions().iterations) * multiply + square;
      break;
    case Method::kAlps:
      operations +=
          kAlpsShare * static_cast<double>(prune::AlpsOptions().iterations) * (multiply + square / 3.0) +
          10.0 * square;
      break;
    default: break;
  }
  const prune::RefineOptions refine;
  const double solves = static_cast<double>(refine.rounds * refine.solver_iterations);
  if (prune.refine == Refine::kMask) operations += 2.0 * multiply;
  if (prune.refine == Refine::kWeights) operations += solves * multiply;
  return operations;
}

// Seconds for one block: forward passes; in fp64 Gram matrices, factorisation and sweep.
double block_seconds(const models::DecoderConfig& config, const PruneOptions& prune, double tokens,
                     double context, const Rates& rates) {
  const Shapes shapes = shapes_of(config);
  const double attention = 2.0 * context * product(config.num_heads, config.head_dim);  // causal: half of 4
  const double passes =
      1.0 + (prune.true_sequential ? static_cast<double>(models::shared_inputs().size()) : 1.0);
  const double forward = passes * tokens * (2.0 * shapes.block_weights + attention);
  // In float32, where a forward pass is a third of a training step.
  const double epochs = prune.reconstruct ? static_cast<double>(prune.reconstruct->epochs) : 0.0;
  const double training = 3.0 * epochs * tokens * (2.0 * shapes.block_weights + 2.0 * attention);
  double fp64 = 0.0;
  for (const std::vector<Slot>& group : models::shared_inputs()) {
    const double width = static_cast<double>(models::slot_shape(config, group.front())[1]);
    fp64 += tokens * width * width;
    for (const Slot slot : group) {
      const auto [rows, cols] = models::slot_shape(config, slot);
      fp64 += layer_operations(prune, rows, cols);
    }
  }
  return forward / rates.forward + fp64 / rates.fp64 + training / rates.fp32;
}

// Bytes of a linear layer's weight in the output, a weight.
double bytes_per_weight(const Options& options, DType stored) {
  const double scale = static_cast<double>(dtype_size(stored));
  const bool two_four = options.prune && options.prune->pattern.is_two_four();
  if (options.quantize == Quantization::kInt4) {
    const bool marlin = two_four && options.format == OutputFormat::kMarlin24;
    const double scales = options.group_size == 0 ? 0.0 : scale / static_cast<double>(options.group_size);
    return (marlin ? 3.0 : 4.0) / 8.0 + scales;
  }
  const double value = options.quantize == Quantization::kNone ? scale : 1.0;
  return two_four && options.format == OutputFormat::kCompressed ? value / 2.0 + 1.0 / 8.0 : value;
}

}  // namespace

Estimate estimate(const models::ModelFiles& files, const Options& options,
                  const std::vector<text::CalibrationWindow>& calibration) {
  const models::DecoderConfig& config = files.config;
  const Shapes shapes = shapes_of(config);
  const double layers = static_cast<double>(config.num_layers);
  const DType stored = options.dtype.value_or(config.dtype);
  const DType compute = options.compute_dtype.value_or(config.dtype);
  double tokens = 0.0;
  double context = 0.0;
  for (const text::CalibrationWindow& window : calibration) {
    tokens += static_cast<double>(window.ids.size());
    context = std::max(context, static_cast<double>(window.ids.size()));
  }

  Estimate result;
  constexpr double kDiskRate = 500e6;  // bytes a second, read and written
  result.file_bytes_out = static_cast<std::int64_t>(
      layers * shapes.block_weights * bytes_per_weight(options, stored) +
      shapes.embedding_weights * (options.quantize_embeddings == EmbeddingQuantization::kFp8
                                      ? 1.0
                                      : static_cast<double>(dtype_size(stored))));
  result.seconds = static_cast<double>(files.tensors->file_bytes() + result.file_bytes_out) / kDiskRate;
  if (options.prune && tokens > 0) {
    const Rates rates = measured_rates(config.hidden_size, tensors::torch_dtype(compute));
    result.seconds += layers * block_seconds(config, *options.prune, tokens, context, rates);
  }

  // One block as it is stored and in fp32, Gram matrices with their factors, hidden states, one window's
  // activations, the program itself.
  const double block = shapes.block_weights * (static_cast<double>(dtype_size(stored)) + 4.0);
  // In fp64: the four Gram matrices of a block; of the widest also H, its damped copy and what factors it.
  const double gram = tokens > 0 ? 8.0 * (3.0 * product(config.hidden_size, config.hidden_size) +
                                          6.0 * shapes.largest_input * shapes.largest_input)
                                 : 0.0;
  const double width = static_cast<double>(config.hidden_size);
  double hidden = tokens * width * static_cast<double>(dtype_size(compute));
  double activations = context * (6.0 * width + 3.0 * static_cast<double>(config.intermediate_size)) * 4.0;
  double training = 0.0;  // float32 weights, gradients, Adam's moments, the best so far
  if (options.prune && options.prune->reconstruct) {
    hidden *= 2.0;  // the dense block's outputs
    activations *= 3.0;
    training = 6.0 * 4.0 * shapes.block_weights;
  }
  const double embedding = shapes.embedding_weights * static_cast<double>(dtype_size(stored));
  result.peak_host_bytes =
      static_cast<std::int64_t>(block + gram + hidden + activations + training + embedding + 150e6);
  return result;
}

}  // namespace grille::compress
