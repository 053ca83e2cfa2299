// grille bench linear, and the command that holds the benchmarks.
#include <iostream>

#include "cli/command.h"
#include "cli/linear_options.h"
#include "grille/benchmark/report.h"
#include "grille/benchmark/roofline.h"
#include "grille/benchmark/tune.h"
#include "grille/checkpoint/output_file.h"

namespace grille::cli {
namespace {

struct LinearCommand {
  benchmark::LinearRequest request;
  std::string svg;
};

nlohmann::json run(const LinearCommand& command, const CommandContext& context) {
  benchmark::LinearOptions options = benchmark::linear_options(command.request);
  options.seed = context.options.seed;
  options.device = linear_device(context.options.device);
  if (!command.request.tune.empty()) {
    benchmark::GrowingPlanFile file(command.request.tune);
    const benchmark::TuneResults tuned = benchmark::run_tune(options, file, context.progress);
    if (!context.options.json) std::cout << benchmark::tune_table(tuned);
    return benchmark::tune_json(tuned);
  }
  const benchmark::LinearResults results = benchmark::run_linear(options, context.progress);
  if (!command.svg.empty()) checkpoint::write_file(command.svg, benchmark::roofline_svg(results));
  if (!context.options.json) std::cout << benchmark::linear_table(results);
  return benchmark::linear_json(results);
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed against the best libraries");
  bench->require_subcommand(1);
  auto options = std::make_shared<LinearCommand>();
  CLI::App* command = add_command(
      *bench, "linear", "Linear layers on a GPU: 2:4 against cuBLASLt and cuSPARSELt, in one run",
      kLinearExamples, [options](const CommandContext& context) { return run(*options, context); },
      RunsOn::kCuda);
  add_linear_options(*command, options->request, options->svg);
  add_bench_throughput(*bench);
}

}  // namespace grille::cli
