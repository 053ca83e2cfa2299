// grille convert
#include "cli/compress_options.h"

namespace grille::cli {
namespace {

nlohmann::json run(const OutputOptions& options, const CommandContext& context) {
  const models::ModelFiles files = models::open_model(options.model);
  compress::Options pipeline = compress_options(options, {}, context.options);
  pipeline.dtype = context.options.compute_dtype();  // here --dtype is what is stored
  compress::check_options(files, pipeline, {});
  return run_pipeline(files, pipeline, {}, options.directory, context);
}

}  // namespace

void add_convert(CLI::App& app) {
  auto options = std::make_shared<OutputOptions>();
  CLI::App* command =
      add_command(app, "convert",
                  "Rewrite a model: from GGUF to safetensors, between compressed and dense, or (with "
                  "--dtype) in another type",
                  "grille convert model.gguf -o model/ --dtype bfloat16",
                  [options](const CommandContext& context) { return run(*options, context); });
  add_output_options(*command, *options);
}

}  // namespace grille::cli
