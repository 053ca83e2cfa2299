#include "cli/compress_options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/compress/workspace.h"

namespace grille::cli {
namespace {

nlohmann::json layer_json(const compress::LayerReport& layer) {
  nlohmann::json object = {{"name", layer.name},
                           {"sparsity", layer.sparsity},
                           {"relative_error", nullptr},
                           {"damping", nullptr},
                           {"seconds", layer.seconds}};
  if (layer.relative_error) object["relative_error"] = *layer.relative_error;
  if (layer.damping) object["damping"] = *layer.damping;
  if (layer.saturated > 0) object["saturated"] = layer.saturated;
  if (layer.swaps) object["swaps"] = *layer.swaps;
  return object;
}

// The value that `name` returns this text for; the command line knows no other texts.
template <typename Values, typename Name>
typename Values::value_type parse_named(const std::string& text, const Values& values, Name&& name) {
  for (const auto value : values) {
    if (name(value) == text) return value;
  }
  fail(ErrorCode::kInternal, "'{}' has no value", text);
}

}  // namespace

void add_output_options(CLI::App& command, OutputOptions& options) {
  command
      .add_option("MODEL", options.model,
                  "A Hugging Face directory, a GGUF file, or a hub id in the local cache")
      ->required();
  command.add_option("-o,--output", options.directory, "The folder to write")->required();
  command
      .add_option(
          "--format", options.format,
          "compressed: 2:4 layers as values and bitmask; dense: with their zeros, for other programs; "
          "marlin-24: 2:4 layers of 4-bit integers in 3 bits a weight")
      ->check(CLI::IsMember({"compressed", "dense", "marlin-24"}))
      ->capture_default_str();
  command.add_flag("--overwrite", options.overwrite, "Replace the folder if it is there already");
  command.add_flag("--resume", options.resume, "Go on with a run that was interrupted");
}

void add_quantize_options(CLI::App& command, QuantizeOptions& options, const std::string& fallback) {
  options.quantize = fallback;
  command
      .add_option(
          "--quantize", options.quantize,
          "fp8-dynamic, int8-dynamic: 8-bit weights with a scale per row, activations rounded per token at "
          "run time; int4: 4-bit weights with a scale for --group-size columns")
      ->check(CLI::IsMember({"none", "fp8-dynamic", "int8-dynamic", "int4"}))
      ->capture_default_str();
  command
      .add_option("--group-size", options.group_size, "int4: columns that share a scale; 0: a scale per row")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20))
      ->capture_default_str();
  options.command = &command;
  command
      .add_option("--quantize-embeddings", options.embeddings,
                  "fp8: the embedding and the head too, weights only")
      ->check(CLI::IsMember({"none", "fp8"}))
      ->capture_default_str();
}

compress::Options compress_options(const OutputOptions& output, const QuantizeOptions& quantize,
                                   const CommonOptions& common) {
  compress::Options options;
  options.quantize =
      parse_named(quantize.quantize,
                  std::array{compress::Quantization::kNone, compress::Quantization::kFp8Dynamic,
                             compress::Quantization::kInt8Dynamic, compress::Quantization::kInt4},
                  compress::quantization_name);
  options.group_size = quantize.group_size;
  check(options.quantize == compress::Quantization::kInt4 || quantize.command == nullptr ||
            quantize.command->count("--group-size") == 0,
        ErrorCode::kInvalidArgument, "--group-size: belongs to --quantize int4");
  options.quantize_embeddings = quantize.embeddings == "none" ? compress::EmbeddingQuantization::kNone
                                                              : compress::EmbeddingQuantization::kFp8;
  options.format = parse_named(output.format,
                               std::array{compress::OutputFormat::kCompressed, compress::OutputFormat::kDense,
                                          compress::OutputFormat::kMarlin24},
                               compress::output_format_name);
  options.compute_dtype = common.compute_dtype();
  options.seed = common.seed;
  options.resume = output.resume;
  options.overwrite = output.overwrite;
  return options;
}

double mean_error(const compress::Report& report) {
  double sum = 0.0;
  std::int64_t count = 0;
  for (const compress::LayerReport& layer : report.layers) {
    if (!layer.relative_error) continue;
    sum += *layer.relative_error;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0.0;
}

nlohmann::json report_json(const compress::Report& report) {
  nlohmann::json layers = nlohmann::json::array();
  for (const compress::LayerReport& layer : report.layers) layers.push_back(layer_json(layer));
  nlohmann::json result = {
      {"layers", layers}, {"file_bytes_in", report.file_bytes_in}, {"file_bytes_out", report.file_bytes_out}};
  for (const auto& [index, block] : report.blocks) {
    result["blocks"].push_back({{"block", index},
                                {"output_error_before", block.error_before},
                                {"output_error", block.error},
                                {"epochs", block.epochs}});
  }
  return result;
}

nlohmann::json run_pipeline(const models::ModelFiles& files, const compress::Options& options,
                            const std::vector<text::CalibrationWindow>& calibration,
                            const std::string& directory, const CommandContext& context) {
  compress::Report report;
  try {
    report = compress::run(files, options, calibration, directory, context.progress);
  } catch (const Error& error) {
    const bool stopped = error.code() == ErrorCode::kCancelled;
    if (!stopped && error.code() != ErrorCode::kNoSpace) throw;
    const std::string what = stopped ? "interrupted" : error.what();
    if (!std::filesystem::exists(compress::partial_directory(directory)))
      fail(error.code(), "{}; nothing was kept", what);
    fail(error.code(), "{}; finished blocks are kept, go on with: {}{}", what, context.command_line,
         options.resume ? "" : " --resume");
  }
  if (!context.options.json) {
    constexpr double kMegabyte = 1e6;
    std::cout << fmt::format("{}: {:.1f} MB (from {:.1f} MB)", directory,
                             static_cast<double>(report.file_bytes_out) / kMegabyte,
                             static_cast<double>(report.file_bytes_in) / kMegabyte);
    if (mean_error(report) > 0)
      std::cout << fmt::format(", mean relative output error {:.4f}", mean_error(report));
    std::cout << "\n";
  }
  nlohmann::json result = report_json(report);
  result["peak_device_bytes"] = 0;
  return result;
}

}  // namespace grille::cli
