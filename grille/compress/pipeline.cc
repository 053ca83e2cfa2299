#include "grille/compress/pipeline.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/base/parallel.h"
#include "grille/checkpoint/safetensors.h"
#include "grille/compress/assemble.h"
#include "grille/compress/block.h"
#include "grille/compress/output_config.h"
#include "grille/compress/part_file.h"
#include "grille/compress/selection.h"
#include "grille/compress/workspace.h"
#include "grille/models/load.h"
#include "grille/text/sha256.h"

namespace grille::compress {
namespace {

using models::Slot;
using nlohmann::json;

constexpr const char* kEmbedding = "model.embed_tokens";

// The model's small tensors whole, and the first row of each large one: another model of the same shapes
// differs somewhere in them.
std::string sampled_weights_sha256(const models::ModelFiles& files) {
  text::Sha256 hash;
  std::vector<std::byte> bytes;
  for (const auto& [name, info] : files.tensors->tensors()) {
    const std::int64_t rows = info.shape.size() < 2 ? info.rows() : std::min<std::int64_t>(info.rows(), 1);
    bytes.resize(static_cast<std::size_t>(rows * info.row_bytes()));
    files.tensors->read_rows(name, 0, rows, bytes);
    hash.update(name);
    hash.update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  return hash.finish();
}

// The ids that are run, which depend on the files, their tokenizer, the context, the samples and the seed.
std::string windows_sha256(const std::vector<text::CalibrationWindow>& calibration) {
  text::Sha256 hash;
  const auto update = [&](const auto& values) { hash.update(fmt::format("{},", fmt::join(values, ","))); };
  for (const text::CalibrationWindow& window : calibration) {
    update(window.segment_lengths);
    update(window.ids);
  }
  return hash.finish();
}

// Everything that the result depends on, for --resume.
std::string fingerprint(const models::ModelFiles& files, const Options& options,
                        const std::vector<text::CalibrationWindow>& calibration) {
  json object = {
      {"config", files.hf_config},
      {"file_bytes", files.tensors->file_bytes()},
      {"weights", sampled_weights_sha256(files)},
      {"options", describe(options)},
      {"seed", options.seed},
      {"method", options.prune ? method_name(options.prune->method) : ""},
      {"calibration", windows_sha256(calibration)},
      {"version", GRILLE_VERSION},
      {"format", output_format_name(options.format)},
      {"compute_dtype", std::string(dtype_name(options.compute_dtype.value_or(files.config.dtype)))},
      {"threads", num_threads()}};
  if (options.dtype) object["dtype"] = std::string(dtype_name(*options.dtype));
  return object.dump(1) + "\n";
}

// A block as it was written by an earlier run, ready to be run.
models::DecoderLayer finished_layer(const models::ModelFiles& files, const Options& options,
                                    const std::filesystem::path& part, std::int64_t index) {
  models::LoadOptions load;
  load.compute_dtype = options.compute_dtype;
  load.round_activations = false;
  models::DecoderLayer layer = models::load_layer(files, index, load);
  const PartFile finished(part);
  for (const Slot slot : models::kSlots) {
    auto& place = layer.linears[static_cast<std::size_t>(slot)];
    place =
        static_cast<nn::WeightLinear&>(*place).with_weight(finished.weight(models::module_name(index, slot)));
  }
  return layer;
}

void write_frame(const models::ModelFiles& files, const Options& options, const std::filesystem::path& path) {
  const models::DecoderConfig& config = files.config;
  const Quantization quantize = options.quantize_embeddings == EmbeddingQuantization::kFp8
                                    ? Quantization::kFp8Dynamic
                                    : Quantization::kNone;
  std::map<std::string, tensors::Weight> weights;
  std::vector<std::string> modules = {kEmbedding};
  if (!config.tie_word_embeddings) modules.push_back("lm_head");
  for (const std::string& module : modules) {
    const tensors::Weight source =
        checkpoint::read_linear(*files.tensors, files.compression, module, config.vocab_size,
                                config.hidden_size, module == kEmbedding ? "Embedding" : "Linear");
    weights.emplace(module, stored_weight(source, files, options, quantize, module));
  }
  write_part(path, weights, {{"model.norm.weight", models::read_finite(files, "model.norm.weight")}}, {});
}

// Norms and biases of a block: its tensors that are not a linear layer's weight.
std::map<std::string, at::Tensor> small_tensors(const models::ModelFiles& files, std::int64_t index) {
  const std::string prefix = fmt::format("model.layers.{}.", index);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, info] : files.tensors->tensors()) {
    const bool norm = name.find("norm.weight") != std::string::npos;
    if (name.starts_with(prefix) && (norm || name.ends_with(".bias")))
      tensors.emplace(name, models::read_finite(files, name));
  }
  return tensors;
}

}  // namespace

void check_options(const models::ModelFiles& files, const Options& options,
                   const std::vector<text::CalibrationWindow>& calibration) {
  if (!options.prune) return;
  const PruneOptions& prune = *options.prune;
  const double damping = damping_of(prune).value_or(1.0);
  check(damping > 0 && damping <= 1, ErrorCode::kInvalidArgument,
        "--damping {}: expected a number above 0, at most 1", damping);
  check(!calibration.empty() || !needs_calibration(prune), ErrorCode::kInvalidArgument,
        "--method {}{} needs text to calibrate on: give --calibration FILE", method_name(prune.method),
        prune.refine == Refine::kNone ? "" : " with --refine");
  check(prune.refine == Refine::kNone || prune.pattern.kind == prune::Pattern::Kind::kGroups,
        ErrorCode::kInvalidArgument,
        "--refine {}: exchanges weights within the groups of an N:M pattern; --pattern {} has none",
        refine_name(prune.refine), prune.pattern.name());
  if (prune.reconstruct) {
    const auto [epochs, rate] = *prune.reconstruct;
    check(epochs >= 1 && rate > 0 && rate < 1, ErrorCode::kInvalidArgument,
          "--reconstruct: {} epochs at a rate of {}: expected at least one, and a rate between 0 and 1",
          epochs, rate);
    check(calibration.size() >= 2, ErrorCode::kInvalidArgument,
          "--reconstruct: needs two calibration windows or more, one of them to tell when to stop; give more "
          "--samples");
  }
  for (const text::CalibrationWindow& window : calibration) {
    const std::int64_t longest =
        *std::max_element(window.segment_lengths.begin(), window.segment_lengths.end());
    check(longest <= files.config.max_positions, ErrorCode::kInvalidArgument,
          "calibration: a window of {} tokens is longer than the model's context of {}", longest,
          files.config.max_positions);
  }
  std::int64_t selected = 0;
  for (std::int64_t layer = 0; layer < files.config.num_layers; ++layer) {
    for (const Slot slot : pruned_slots(prune, layer)) {
      ++selected;
      const std::int64_t cols = models::slot_shape(files.config, slot)[1];
      check(prune.pattern.kind != prune::Pattern::Kind::kGroups || cols % prune.pattern.group == 0,
            ErrorCode::kInvalidArgument,
            "--pattern {}: {} has {} input features, not a multiple of {}; leave it out with --ignore",
            prune.pattern.name(), models::module_name(layer, slot), cols, prune.pattern.group);
    }
  }
  check(selected > 0, ErrorCode::kInvalidArgument,
        "--targets {}: no linear layer is left to prune; names look like '{}'", fmt::join(prune.targets, " "),
        models::module_name(0, Slot::kQuery));
}

void check_output(const models::ModelFiles& files, const Options& options,
                  const std::filesystem::path& directory) {
  check_directory(directory, options.overwrite, {files.path});
}

Report run(const models::ModelFiles& files, const Options& options,
           const std::vector<text::CalibrationWindow>& calibration, const std::filesystem::path& directory,
           Progress& progress) {
  check_output(files, options, directory);
  Workspace workspace(directory, fingerprint(files, options, calibration), options.resume, options.overwrite);
  Report report;
  report.file_bytes_in = files.tensors->file_bytes();
  write_frame(files, options, workspace.part(-1));

  std::optional<models::Decoder> frame;
  std::optional<CalibrationRun> calibration_run;
  if (options.prune && !calibration.empty()) {
    models::LoadOptions load;
    load.compute_dtype = options.compute_dtype;
    frame.emplace(models::load_decoder_frame(files, load));
    calibration_run.emplace(*frame, calibration);
  }
  const std::int64_t blocks = files.config.num_layers;
  const std::int64_t last_pruned = calibration_run ? last_pruned_block(*options.prune, blocks) : -1;
  progress.start(options.prune ? "pruning" : "writing", blocks, "blocks");
  for (std::int64_t index = 0; index < blocks; ++index) {
    throw_if_interrupted();
    const std::filesystem::path part = workspace.part(index);
    std::vector<LayerReport> layers;
    if (options.resume && std::filesystem::exists(part)) {
      const PartFile finished(part);
      layers = finished.reports();
      if (const auto reconstruction = finished.reconstruction()) report.blocks[index] = *reconstruction;
      if (index < last_pruned) calibration_run->advance(finished_layer(files, options, part, index), index);
    } else {
      BlockResult block =
          process_block(files, options, index, index <= last_pruned ? &*calibration_run : nullptr);
      std::map<std::string, tensors::Weight> weights;
      for (auto& [slot, weight] : block.weights)
        weights.emplace(models::module_name(index, slot), std::move(weight));
      write_part(part, weights, small_tensors(files, index), block.reports, block.reconstruction);
      if (block.reconstruction) report.blocks[index] = *block.reconstruction;
      layers = std::move(block.reports);
    }
    double error = 0.0;
    for (const LayerReport& layer : layers) error = std::max(error, layer.relative_error.value_or(0.0));
    progress.update(index + 1, error > 0 ? fmt::format("largest relative output error {:.3f}", error) : "");
    std::move(layers.begin(), layers.end(), std::back_inserter(report.layers));
  }
  progress.finish();
  calibration_run.reset();
  frame.reset();
  report.file_bytes_out = assemble(files, options, report, workspace);
  workspace.publish();
  return report;
}

}  // namespace grille::compress
