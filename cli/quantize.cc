// grille quantize
#include "cli/compress_options.h"
#include "grille/base/error.h"

namespace grille::cli {
namespace {

struct QuantizeCommand {
  OutputOptions output;
  QuantizeOptions quantize;
};

nlohmann::json run(const QuantizeCommand& options, const CommandContext& context) {
  check(options.quantize.quantize != "none" || options.quantize.embeddings != "none",
        ErrorCode::kInvalidArgument,
        "nothing to quantize: both --quantize and --quantize-embeddings are none; use 'grille convert'");
  const models::ModelFiles files = models::open_model(options.output.model);
  const compress::Options pipeline = compress_options(options.output, options.quantize, context.options);
  compress::check_options(files, pipeline, {});
  return run_pipeline(files, pipeline, {}, options.output.directory, context);
}

}  // namespace

void add_quantize(CLI::App& app) {
  auto options = std::make_shared<QuantizeCommand>();
  CLI::App* command =
      add_command(app, "quantize", "Store a model's weights in 8 or 4 bits",
                  "grille quantize model/ -o small/ --quantize fp8-dynamic",
                  [options](const CommandContext& context) { return run(*options, context); });
  add_output_options(*command, options->output);
  add_quantize_options(*command, options->quantize, "fp8-dynamic");
}

}  // namespace grille::cli
