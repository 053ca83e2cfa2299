// Options of the commands that write a model: prune, quantize, convert.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "grille/compress/pipeline.h"

namespace grille::cli {

struct OutputOptions {
  std::string model;
  std::string directory;
  std::string format = "compressed";
  bool overwrite = false;
  bool resume = false;
};

void add_output_options(CLI::App& command, OutputOptions& options);

struct QuantizeOptions {
  std::string quantize = "none";
  std::string embeddings = "none";
  std::int64_t group_size = 128;
  const CLI::App* command = nullptr;
};

// `fallback`: what --quantize is when it is not given.
void add_quantize_options(CLI::App& command, QuantizeOptions& options, const std::string& fallback);

// The parts of compress::Options that these stand for.
compress::Options compress_options(const OutputOptions& output, const QuantizeOptions& quantize,
                                   const CommonOptions& common);

// The layers, blocks and file sizes of a report for --json.
nlohmann::json report_json(const compress::Report& report);
// Mean relative output error of the layers that have one; 0 where none has.
double mean_error(const compress::Report& report);

// Runs the pipeline and makes the --json object; prints a summary in text mode.
nlohmann::json run_pipeline(const models::ModelFiles& files, const compress::Options& options,
                            const std::vector<text::CalibrationWindow>& calibration,
                            const std::string& directory, const CommandContext& context);

}  // namespace grille::cli
