// grille eval perplexity
#include <iostream>

#include "cli/evaluation_text.h"
#include "cli/model_options.h"
#include "grille/base/error.h"
#include "grille/evaluate/perplexity.h"
#include "grille/text/document_encoder.h"
#include "grille/text/text_files.h"

namespace grille::cli {
namespace {

struct PerplexityCommand {
  ModelOptions model;
  EvaluationText text;
  std::string documents;
  std::int64_t context = 0;
  std::int64_t stride = 0;
};

std::vector<std::vector<std::int32_t>> read_documents(const std::string& file,
                                                      const text::Tokenizer& tokenizer,
                                                      std::int64_t context) {
  text::DocumentEncoder encoder(tokenizer, context);
  std::vector<std::vector<std::int32_t>> documents;
  for (const text::Document& document : text::read_documents(file)) {
    documents.push_back(encoder.encode(document, file));
  }
  return documents;
}

nlohmann::json run(const PerplexityCommand& options, const CommandContext& context) {
  check(options.text.file.empty() != options.documents.empty(), ErrorCode::kInvalidArgument,
        "give one of --text FILE and --documents FILE.jsonl");
  check(options.documents.empty() ||
            (options.stride == 0 && options.text.max_tokens == 0 && options.text.format == "plain"),
        ErrorCode::kInvalidArgument,
        "--text-format, --stride and --max-tokens belong to --text; a document is scored whole and alone");
  const LoadedModel loaded = load_model(options.model, context);
  const text::Tokenizer tokenizer = models::load_tokenizer(loaded.files);
  evaluate::PerplexityOptions perplexity;
  perplexity.context = options.context > 0
                           ? options.context
                           : std::min<std::int64_t>(2048, loaded.decoder.config().max_positions);
  perplexity.stride = options.stride;
  const evaluate::PerplexityResult result =
      options.documents.empty()
          ? evaluate::perplexity(loaded.decoder, read_evaluation_text(options.text, tokenizer), perplexity,
                                 context.progress)
          : evaluate::document_perplexity(loaded.decoder,
                                          read_documents(options.documents, tokenizer, perplexity.context),
                                          perplexity, context.progress);
  if (!context.options.json) {
    std::cout << fmt::format("perplexity {:.4f}", result.perplexity);
    if (result.standard_error) std::cout << fmt::format(" +- {:.4f}", *result.standard_error);
    std::cout << fmt::format(" ({} predictions in {} windows)\n", result.tokens, result.windows);
  }
  nlohmann::json object = {{"perplexity", result.perplexity}, {"stderr", nullptr},
                           {"tokens", result.tokens},         {"windows", result.windows},
                           {"nll_sum", result.nll_sum},       {"context", perplexity.context}};
  if (result.standard_error) object["stderr"] = *result.standard_error;
  return object;
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* eval = app.add_subcommand("eval", "Measure a model");
  eval->require_subcommand(1);
  add_eval_mmlu(*eval);
  add_eval_tasks(*eval);
  auto options = std::make_shared<PerplexityCommand>();
  CLI::App* command = add_command(
      *eval, "perplexity", "Perplexity of a text",
      "grille eval perplexity model/ --text wiki.test.raw --text-format hf-wikitext",
      [options](const CommandContext& context) { return run(*options, context); }, RunsOn::kCpuOrCuda);
  add_model_options(*command, options->model);
  add_evaluation_text(*command, options->text, "A text file, tokenized whole and cut into windows");
  command
      ->add_option("--documents", options->documents,
                   "A JSONL file, one document a line (\"text\" or \"messages\"), each scored alone")
      ->check(CLI::ExistingFile);
  command->add_option("--context", options->context, "Tokens a window (default: 2048 or the model's longest)")
      ->check(CLI::Range(std::int64_t{2}, kMostTokens));
  command
      ->add_option(
          "--stride", options->stride,
          "Start a window every so many tokens and score only new ones (default: windows do not overlap)")
      ->check(CLI::Range(std::int64_t{1}, kMostTokens));
}

}  // namespace grille::cli
