// grille inspect
#include <iostream>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/inspection_json.h"
#include "grille/checkpoint/output_file.h"
#include "grille/compress/inspection.h"

namespace grille::cli {
namespace {

struct InspectOptions {
  std::string model;
  std::string html;
};

void print(const compress::Inspection& inspection) {
  std::cout << fmt::format("{}, {} parameters, {:.1f} MB in files\n\n", inspection.architecture,
                           inspection.parameters, static_cast<double>(inspection.file_bytes) / 1e6);
  std::cout << fmt::format("{:<44}{:>14}  {:<34}{:<15}{:>9}{:>12}\n", "layer", "shape", "format", "dtype",
                           "zeros", "violations");
  for (const compress::LayerInspection& layer : inspection.layers) {
    std::cout << fmt::format("{:<44}{:>14}  {:<34}{:<15}{:>8.2f}%{:>12}\n", layer.name,
                             fmt::format("{}x{}", layer.rows, layer.cols),
                             layer.two_four ? layer.format + " (2:4)" : layer.format, layer.dtype,
                             100 * layer.sparsity, layer.violations);
  }
  if (!inspection.provenance) return;
  for (const checkpoint::ProvenanceStep& step : inspection.provenance->steps) {
    std::cout << fmt::format("\nmade by: {} {} {}", step.command, step.method, step.options.dump());
  }
  std::cout << "\n";
}

nlohmann::json run(const InspectOptions& options, const CommandContext& context) {
  const models::ModelFiles files = models::open_model(options.model);
  const compress::Inspection inspection = compress::inspect(files, context.progress);
  if (!options.html.empty()) {
    checkpoint::write_file(options.html, compress::html_report(inspection, files.path.filename().string()));
  }
  if (!context.options.json) print(inspection);
  return to_json(inspection);
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      add_command(app, "inspect", "What a checkpoint holds: formats, sizes, zeros, provenance",
                  "grille inspect sparse/ --html report.html",
                  [options](const CommandContext& context) { return run(*options, context); });
  command
      ->add_option("MODEL", options->model,
                   "A Hugging Face directory, a GGUF file, or a hub id in the local cache")
      ->required();
  command->add_option("--html", options->html, "Also write a page with a picture of every layer's zeros");
}

}  // namespace grille::cli
